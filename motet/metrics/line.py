"""Accuracy along the line from the generic model to each client's own (SuPerFed's Figure A2, and its spread per λ)."""

from collections.abc import Mapping
from statistics import fmean, pstdev
from typing import ClassVar, Literal

import torch
from pydantic import Field

from motet.messages.message import Message, tensor
from motet.methods.base import Axis, LearnedFigure
from motet.metrics.names import PERSONAL, MetricName, variant
from motet.metrics.on_test_data import accuracy_here, asked_data, data_of
from motet.metrics.run_metric import ClientScope, Finding, RunFacts, RunMetric
from motet.training.flat_weights import Layout

_VALUES, _APART = "line.accuracy", "line.distance"


class Line(RunMetric):
    """The plain net with (1 − λ)w_G + λw_i at λ = 0 to 1, on each client's test data; statistics are w_G's.

    w_i is what the client has of its own: w^l of SuPerFed, v of APFL, a personal model; or its model after one more
    local training.
    """

    name: ClassVar[str] = "line"
    summary: ClassVar[str] = "accuracy along the line from the generic to each client's own model, mean and spread"
    paper: ClassVar[str] = "SuPerFed, Hahn et al. 2022, Figures 3 and A2"
    asks_clients: ClassVar[bool] = True
    needs_generic: ClassVar[bool] = True

    points: int = Field(11, ge=2, le=101, description="values of λ from 0 to 1")
    model: Literal["own", "trained"] = Field(
        "own", description="the other end: the client's own model, or its model after one more training (trained)"
    )

    @property
    def trains(self) -> bool:
        """Whether clients train for it."""
        return self.model == "trained"

    @property
    def grid(self) -> list[float]:
        """The values of λ."""
        return [round(k / (self.points - 1), 6) for k in range(self.points)]

    def asked(self, run: RunFacts, client_id: int) -> Message:
        """Return on which data to score."""
        return asked_data(run)

    def at_client(self, here: ClientScope) -> Message:
        """Return the accuracy at each λ, and how far both ends are apart."""
        net, own = here.generic(), here.own_weights(self.trains)
        if net is None or own is None:
            return {}
        layout = Layout(net)
        w, moving = layout.flatten(net).clone(), layout.trainable
        start, end = w[moving].clone(), own[moving].to(w)
        accuracies = []
        for lam in self.grid:
            w[moving] = torch.lerp(start, end, lam)
            accuracies.append(accuracy_here(here, here.bound(w)))
        if None in accuracies:
            return {}
        return {_VALUES: torch.tensor(accuracies, dtype=torch.float64), _APART: float((end - start).norm())}

    def found(self, run: RunFacts, replies: Mapping[int, Message]) -> Finding:
        """Return mean and standard deviation over clients at every λ."""
        told = [reply for reply in replies.values() if _VALUES in reply]
        if not told:
            return Finding(notes=["line: there is no generic model, or no client has weights of its own and test data"])
        if not any(reply[_APART] for reply in told):
            return Finding(notes=["line: clients' own models are the generic one; accepted: line(model=trained)"])
        at_each = torch.stack([tensor(reply, _VALUES) for reply in told]).T.tolist()
        means, spreads = [fmean(values) for values in at_each], [pstdev(values) for values in at_each]
        data, figures = data_of(run), dict[str, float]()
        whose = variant(PERSONAL, self.model) if self.trains else PERSONAL
        for lam, mean, spread in zip(self.grid, means, spreads, strict=True):
            name = MetricName(whose, data, f"line_{lam:g}".replace(".", "_"))
            figures |= {str(name.over("mean")): mean, str(name.over("std")): spread}
        picture = LearnedFigure.lines(
            "line" if self.model == "own" else "line-trained",
            "Accuracy along the line from the generic to each client's own model",
            "Left is the generic model, right each client's own; a raised middle is a mixture that serves better.",
            {"mean over clients": means, "standard deviation over clients": spreads},
            x=Axis("λ", tuple(self.grid)),
            y="accuracy",
        )
        return Finding(figures, figures_learned=[picture])
