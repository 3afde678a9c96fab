"""Robust aggregations, which replace the mean where some clients may be malicious."""

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from motet.messages.message import Message, tensor
from motet.methods.base import Facts, MethodEntry, Part, Serving, average
from motet.methods.base.part import Acts

# -------- What all share


class Robust(Part):
    """The base class: one rule for all that travels, statistics too. All clients have the same weight, because an
    attacker may claim any number of samples."""

    acts: ClassVar[Acts] = "server"
    role: ClassVar[str | None] = "aggregation"
    weighting: ClassVar[Literal["samples", "uniform"]] = "uniform"
    serves_adaptation: ClassVar[bool] = False

    def combine(self, s: Serving, replies: Mapping[int, Message]) -> Tensor:
        """Return what the rule makes of the clients' w, one row each."""
        return self.choose(torch.stack([tensor(reply, "w") for reply in replies.values()]))

    def choose(self, W: Tensor) -> Tensor:
        """Return one row for all."""
        raise NotImplementedError


def middle(W: Tensor, cut: int) -> Tensor:
    """Return the mean of every coordinate without its `cut` smallest and its `cut` largest values."""
    return W.sort(0).values[cut : len(W) - cut].mean(0)


# -------- The coordinate-wise median (Yin et al. 2018)


class Median(Robust):
    """w_k ← median_i w_ik; of an even number, the mean of the two in the middle"""

    def choose(self, W: Tensor) -> Tensor:
        """Cut all but one or two values of each coordinate."""
        return middle(W, (len(W) - 1) // 2)


# -------- The coordinate-wise trimmed mean (Yin et al. 2018)


class TrimmedMean(Robust):
    """w_k ← mean of the w_ik without the ⌊β|S|⌋ smallest and the ⌊β|S|⌋ largest"""

    share: float = Field(0.2, ge=0, lt=0.5, description="β, the share that is cut at either end")

    def choose(self, W: Tensor) -> Tensor:
        """Cut ⌊β|S|⌋ values on both sides; a product just below a whole number counts as that number."""
        return middle(W, int(self.share * len(W) + 1e-9))


# -------- Krum and multi-Krum (Blanchard et al. 2017)


class Krum(Part):
    """w ← the w_i whose squared distances to its |S| − f − 2 nearest others add up to least; the mean of the m best."""

    acts: ClassVar[Acts] = "server"
    role: ClassVar[str | None] = "aggregation"
    serves_adaptation: ClassVar[bool] = False

    f: int = Field(1, ge=0, description="f, how many of a cohort may be malicious")
    m: int = Field(1, ge=1, description="m, how many models are averaged (1: Krum; |S| − f: multi-Krum)")

    def refuse(self, facts: Facts) -> str | None:
        """Return a sentence unless the cohort is larger than 2f + 2."""
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

    The mean is not weighted by samples as Flower's is, because an attacker may claim any number of samples.
    """

    m: int = Field(0, ge=0, description="m, how many models are averaged; 0: |S| − f")

    def kept(self, cohort: int) -> int:
        """m, or |S| − f"""
        return self.m or max(1, cohort - self.f)


# -------- The geometric median (Pillutla, Kakade and Harchaoui 2022, RFA)


MOST_ITERATIONS = 1000


class GeometricMedian(Robust):
    """w ← argmin_z Σ_i ‖z − w_i‖, by z ← Σ (w_i/d_i) / Σ (1/d_i) with d_i = max(ν, ‖z − w_i‖) (smoothed Weiszfeld)

    It starts at the mean and ends when z stands still. RFA weights clients by their samples; here all have the same
    weight.
    """

    nu: float = Field(1e-6, gt=0, description="ν, the least distance that counts")
    tolerance: float = Field(
        1e-6, gt=0, description="z stands still when it moves by less than this share of Σ d_i/|S|"
    )

    def choose(self, W: Tensor) -> Tensor:
        """Iterate in float64, as distances are small beside the weights."""
        points = W.double()
        z = points.mean(0)
        for _ in range(MOST_ITERATIONS):
            d = (points - z).norm(dim=1).clamp_min(self.nu)
            moved, z = z, (1 / d) @ points / (1 / d).sum()
            if (z - moved).norm() <= self.tolerance * d.mean():
                break
        return z.to(W.dtype)


# -------- Norm clipping as an aggregation (Sun et al. 2019)


class NormClip(Part):
    """w ← w + Σ p_i Δ_i·min(1, M/‖Δ_i‖) with Δ_i = w_i − w and FedAvg's weights p_i

    The norm is that of the trainable weights; statistics (counters are among them) are scaled as the rest of Δ_i is.
    """

    acts: ClassVar[Acts] = "server"
    role: ClassVar[str | None] = "aggregation"
    serves_adaptation: ClassVar[bool] = False

    norm: float | None = Field(None, gt=0, description="M, the longest change; left out: the median of the cohort's")

    def combine(self, s: Serving, replies: Mapping[int, Message]) -> Tensor:
        """Return w plus the mean of all Δ_i, each cut to the bound."""
        assert s.sent is not None
        changes = {i: tensor(reply, "w") - s.sent for i, reply in replies.items()}
        lengths = torch.stack([change[s.layout.trainable.start :].norm() for change in changes.values()])
        bound = lengths.quantile(0.5) if self.norm is None else self.norm
        factors = (bound / lengths.clamp_min(1e-12)).clamp_max(1.0)
        for (i, change), factor in zip(changes.items(), factors, strict=True):
            changes[i] = s.sent + factor * change
        return average({i: {**reply, "w": changes[i]} for i, reply in replies.items()}, "w", s.weighting)


ENTRIES = (
    MethodEntry("median", "the median of every weight", "Yin et al. 2018", part=Median),
    MethodEntry("trimmed-mean", "the mean of every weight without its extremes", "Yin et al. 2018", part=TrimmedMean),
    MethodEntry("krum", "the model that most others are near to", "Blanchard et al. 2017", part=Krum),
    MethodEntry(
        "multi-krum",
        "the mean of the models that most others are near to",
        "Blanchard et al. 2017",
        part=MultiKrum,
    ),
    MethodEntry("geometric-median", "the point nearest to all models", "Pillutla et al. 2022", part=GeometricMedian),
    MethodEntry("norm-clip", "no client's change is longer than a bound", "Sun et al. 2019", part=NormClip),
)
