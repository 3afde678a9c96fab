"""How far apart classes are in the features, for each client and for the pool of all (DBE's corollaries)."""

from collections.abc import Mapping
from statistics import fmean
from typing import ClassVar

import torch
from torch import Tensor

from motet.messages.message import Message, tensor
from motet.methods.base import Axis, LearnedFigure
from motet.metrics.feature_metric import WORDS, FeatureMetric
from motet.metrics.names import MetricName
from motet.metrics.run_metric import ClientScope, Finding, RunFacts

_N, _SUM, _SQUARES = "fisher.n", "fisher.sum", "fisher.squares"


class Fisher(FeatureMetric):
    """Fisher's ratio tr S_B / tr S_W, S_B = Σ_c n_c‖μ_c − μ‖² and S_W = Σ_c Σ‖z − μ_c‖² over the samples of class c.

    On a client's own samples, and on those of all clients together. Where features carry a bias of their client, the
    pool's is the lower one: the same class lies elsewhere at each client. And the ratio with clients in the place of
    classes, which says how much of the client is in the features.
    """

    name: ClassVar[str] = "fisher"
    summary: ClassVar[str] = "Fisher's ratio of classes in the features: each client's, all clients' pooled; of clients"
    paper: ClassVar[str] = "Fisher 1936; for the corollaries of DBE, Zhang et al. 2023"

    def at_client(self, here: ClientScope) -> Message:
        """Return for each class: samples, the sum of their features, and Σ‖z‖²."""
        model, samples = self.model_here(here), self.samples_here(here)
        z = None if model is None or not len(samples) else self.features(model, samples)
        if z is None:
            return {}
        classes, z = here.client.classes, z.double()
        sums = torch.zeros(classes, z.shape[1], dtype=torch.float64).index_add_(0, samples.y, z)
        squares = torch.bincount(samples.y, weights=z.square().sum(1), minlength=classes)
        return {_N: samples.counts(classes).double(), _SUM: sums, _SQUARES: squares}

    def found(self, run: RunFacts, replies: Mapping[int, Message]) -> Finding:
        """Return the mean over clients, the pool's ratio, and the ratio of clients."""
        told = {i: reply for i, reply in replies.items() if _N in reply}
        if not told:
            return Finding(notes=[f"fisher: no client has a model with these features, {WORDS[self.model]}"])
        n, sums, squares = (torch.stack([tensor(r, name) for r in told.values()]) for name in (_N, _SUM, _SQUARES))
        own = [ratio(*each) for each in zip(n, sums, squares, strict=True)]
        pool = ratio(n.sum(0), sums.sum(0), squares.sum(0))
        of_clients = ratio(n.sum(1), sums.sum(1), squares.sum(1))
        there = [value for value in own if value is not None]
        stage, data = self.stage(run.net), run.test_data
        figures = {
            MetricName(self.whose, data, f"fisher:{stage}", "mean"): fmean(there) if there else None,
            MetricName(self.whose, data, f"fisher:{stage}", "pooled"): pool,
            MetricName(self.whose, data, f"fisher_of_clients:{stage}", "pooled"): of_clients,
        }
        bars = LearnedFigure.bars(
            f"fisher-{self.model}",
            f"Fisher's ratio of classes after {stage} {WORDS[self.model]}",
            "High bars are clients whose classes are well apart; the pool is low where clients' features lie apart.",
            {"own samples": [*own, None], "all clients": [*[None] * len(own), pool]},
            x=Axis("client", (*(run.names[i] for i in told), "all")),
            y="tr S_B / tr S_W",
        )
        return Finding(
            {str(name): value for name, value in figures.items() if value is not None}, figures_learned=[bars]
        )


def ratio(n: Tensor, sums: Tensor, squares: Tensor) -> float | None:
    """Return tr S_B / tr S_W from each group's samples, sum and Σ‖z‖²; None for fewer than two groups or no spread."""
    held = n > 0
    n, sums, squares = n[held], sums[held], squares[held]
    if len(n) < 2:
        return None
    of_groups = sums.square().sum(1) / n  # n_c‖μ_c‖²
    between = float(of_groups.sum() - sums.sum(0).square().sum() / n.sum())
    within = float((squares - of_groups).sum())
    return between / within if within > 1e-12 * float(squares.sum()) else None
