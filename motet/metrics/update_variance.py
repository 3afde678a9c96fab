"""The variance of the clients' updates in a round (FED-ROD's Figures 5 and 9)."""

from collections.abc import Mapping
from statistics import fmean
from typing import ClassVar

import torch

from motet.messages.message import Message
from motet.methods.base import Axis, LearnedFigure
from motet.metrics.run_metric import Cohort, Finding, RunFacts, RunMetric

WHOLE, PER_WEIGHT = "update_variance", "update_variance_per_weight"


class UpdateVariance(RunMetric):
    """V = (1/|S|) Σ_m ‖Δ_m − mean Δ‖² with Δ_m = w_m − w̄, of the net's own trainable weights; and V/d."""

    name: ClassVar[str] = "update_variance"
    summary: ClassVar[str] = "variance of the local updates of a round, V and V/d, round by round and their means"
    paper: ClassVar[str] = "FED-ROD, Chen and Chao 2022, Figures 5 and 9"
    needs_classes: ClassVar[bool] = False

    def in_round(self, cohort: Cohort) -> dict[str, float]:
        """Return V and V/d of one round."""
        updates = torch.stack([model.double() - cohort.sent.double() for model in cohort.models])
        V = float((updates - updates.mean(0)).square().sum(1).mean())
        return {WHOLE: V, PER_WEIGHT: V / max(1, updates.shape[1])}

    def found(self, run: RunFacts, replies: Mapping[int, Message]) -> Finding:
        """Return the curve over rounds, and its mean."""
        rows = [row for row in run.rows if WHOLE in row]
        if not rows:
            return Finding(notes=["update_variance: in no round did clients send weights of the net"])
        means = {name: fmean(row[name] for row in rows) for name in (WHOLE, PER_WEIGHT)}
        curve = LearnedFigure.lines(
            "update-variance",
            "Variance of the local updates over rounds",
            "The lower, the more the clients of a round agree about where the model should go.",
            {"V": [row[WHOLE] for row in rows]},
            x=Axis("round", tuple(row["round"] for row in rows)),
            y="V",
        )
        return Finding(training=means, figures_learned=[curve])
