"""How far clients' models move from the model that they were sent (FED-ROD's Figure 7)."""

from collections.abc import Mapping
from statistics import fmean
from typing import ClassVar

import torch

from motet.messages.message import Message
from motet.methods.base import Axis, LearnedFigure
from motet.metrics.run_metric import Cohort, Finding, RunFacts, RunMetric

SUM, BY_SAMPLES = "drift", "drift_by_samples"


class Drift(RunMetric):
    """Σ_m ‖w_m − w̄‖² and Σ_m (n_m/n)‖w_m − w̄‖² over the cohort, w̄ as it was sent; of the net's own trainable weights.

    The other term of Figure 7, Σ_m (n_m/n)L_m(w_m), is close to the training losses that a round's row has anyway.
    """

    name: ClassVar[str] = "drift"
    summary: ClassVar[str] = "squared distance of clients' models from the one they were sent, round by round"
    paper: ClassVar[str] = "FED-ROD, Chen and Chao 2022, Figure 7"
    needs_classes: ClassVar[bool] = False

    def in_round(self, cohort: Cohort) -> dict[str, float]:
        """Return both sums of one round."""
        squares = torch.stack([(w.double() - cohort.sent.double()).square().sum() for w in cohort.models])
        n = torch.tensor(cohort.samples, dtype=torch.float64)
        return {SUM: float(squares.sum()), BY_SAMPLES: float(squares @ (n / n.sum()))}

    def found(self, run: RunFacts, replies: Mapping[int, Message]) -> Finding:
        """Return the curve over rounds, and the means."""
        rows = [row for row in run.rows if SUM in row]
        if not rows:
            return Finding(notes=["drift: in no round did clients send weights of the net"])
        curve = LearnedFigure.lines(
            "drift",
            "How far clients' models are from the one they were sent, over rounds",
            "The lower, the less local training moves a model: a balanced loss or a proximal term holds it back.",
            {"Σ (n_m/n)‖w_m − w̄‖²": [row[BY_SAMPLES] for row in rows]},
            x=Axis("round", tuple(row["round"] for row in rows)),
            y="squared distance",
        )
        return Finding(
            training={name: fmean(row[name] for row in rows) for name in (SUM, BY_SAMPLES)}, figures_learned=[curve]
        )
