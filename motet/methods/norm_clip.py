"""Norm clipping as an aggregation (Sun et al. 2019): the server lets no client's change be longer than a bound."""

from collections.abc import Mapping
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from motet.contract import Entry, Part, Serving, average
from motet.contract.part import Acts
from motet.message import Message, tensor


class NormClip(Part):
    """w ← w + Σ p_i Δ_i·min(1, M/‖Δ_i‖) with Δ_i = w_i − w and FedAvg's weights p_i

    The norm is that of the trainable weights; statistics (counters are among them) are scaled as the rest of Δ_i is.
    """

    acts: ClassVar[Acts] = "server"
    role: ClassVar[str | None] = "aggregation"
    serves_adaptation: ClassVar[bool] = False

    norm: float | None = Field(None, gt=0, description="M, the longest change; left out: the median of the cohort's")

    def combine(self, s: Serving, replies: Mapping[int, Message]) -> Tensor:
        """Everybody's Δ_i, as long as the bound at most"""
        assert s.sent is not None
        changes = {i: tensor(reply, "w") - s.sent for i, reply in replies.items()}
        lengths = torch.stack([change[s.layout.trainable.start :].norm() for change in changes.values()])
        bound = lengths.quantile(0.5) if self.norm is None else self.norm
        factors = (bound / lengths.clamp_min(1e-12)).clamp_max(1.0)
        for (i, change), factor in zip(changes.items(), factors, strict=True):
            changes[i] = s.sent + factor * change
        return average({i: {**reply, "w": changes[i]} for i, reply in replies.items()}, "w", s.weighting)


ENTRY = Entry("norm-clip", "no client's change is longer than a bound", "Sun et al. 2019", part=NormClip)
