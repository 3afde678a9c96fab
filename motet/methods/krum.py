"""Krum and multi-Krum (Blanchard et al. 2017): the models that most others are near to."""

from collections.abc import Mapping
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from motet.contract import Entry, Facts, Part, Serving
from motet.contract.part import Acts
from motet.message import Message, tensor


class Krum(Part):
    """w ← the w_i whose squared distances to its |S| − f − 2 nearest others add up to least; the mean of the m best."""

    acts: ClassVar[Acts] = "server"
    role: ClassVar[str | None] = "aggregation"
    serves_adaptation: ClassVar[bool] = False

    f: int = Field(1, ge=0, description="f, how many of a cohort may be malicious")
    m: int = Field(1, ge=1, description="m, how many models are averaged (1: Krum; |S| − f: multi-Krum)")

    def refuse(self, facts: Facts) -> str | None:
        """The cohort must be larger than 2f + 2."""
        if facts.cohort > 2 * self.f + 2:
            return None
        name, least = "multi-krum" if isinstance(self, MultiKrum) else "krum", 2 * self.f + 2
        return f"{name} with f = {self.f} needs more than {least} clients in a round; accepted: a larger cohort"

    def combine(self, s: Serving, replies: Mapping[int, Message]) -> Tensor:
        """argmin over i of Σ_{j near i} ‖w_i − w_j‖²"""
        W = torch.stack([tensor(reply, "w") for reply in replies.values()])
        near = torch.cdist(W.double(), W.double()).square().sort(1).values[:, 1 : max(2, len(W) - self.f - 1)]
        best = near.sum(1).argsort(stable=True)[: self.kept(len(W))]
        return W[best.sort().values].mean(0)

    def kept(self, cohort: int) -> int:
        """m"""
        return self.m


class MultiKrum(Krum):
    """w ← the plain mean of the m models with the smallest such sums, m = |S| − f

    Plain, and not by samples as Flower has it: an attacker says how many samples it has.
    """

    m: int = Field(0, ge=0, description="m, how many models are averaged; 0: |S| − f")

    def kept(self, cohort: int) -> int:
        """m, or |S| − f"""
        return self.m or max(1, cohort - self.f)


ENTRIES = (
    Entry("krum", "the model that most others are near to", "Blanchard et al. 2017", part=Krum),
    Entry(
        "multi-krum",
        "the mean of the models that most others are near to",
        "Blanchard et al. 2017",
        part=MultiKrum,
    ),
)
