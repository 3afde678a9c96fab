"""The loss on the plane through the generic model and two clients' own models (SuPerFed's Figure A1)."""

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from motet.data import Samples
from motet.messages.message import Message, tensor
from motet.methods.base import Axis, LearnedFigure
from motet.metrics.metric import LOSS
from motet.metrics.one_pass import one_pass, share_right
from motet.metrics.run_metric import ClientScope, Finding, RunFacts, RunMetric
from motet.training.flat_weights import Layout

_W = "plane.w"


class WeightPlane(RunMetric):
    """The loss of w_G + s(w_1 − w_G) + t(w_2 − w_G) on the common test set.

    w_G is at (0, 0), w_1 at (1, 0) and w_2 at (0, 1).
    Two clients' own models leave them for this, so it is for simulations only.
    """

    name: ClassVar[str] = "plane"
    summary: ClassVar[str] = "loss on the plane through the generic model and two clients' own models"
    paper: ClassVar[str] = "SuPerFed, Hahn et al. 2022, Figure A1; Garipov et al. 2018"
    asks_clients: ClassVar[bool] = True
    needs_generic: ClassVar[bool] = True

    first: int = Field(0, ge=0, description="place of the first client among those that train")
    second: int = Field(1, ge=0, description="place of the second one")
    points: int = Field(5, ge=2, le=41, description="values of s and t from 0 to 1; one more beyond each end")
    samples: int = Field(500, ge=1, description="samples of the common test set, spread over its classes")
    model: Literal["own", "trained"] = Field(
        "own", description="clients' own models, or their models after one more local training (trained)"
    )

    @property
    def trains(self) -> bool:
        """Whether clients train for it."""
        return self.model == "trained"

    @property
    def grid(self) -> list[float]:
        """The values of s and t: 0 to 1, and a step beyond."""
        return [round(k / (self.points - 1), 6) for k in range(-1, self.points + 1)]

    def refuse(self, run: RunFacts) -> str | None:
        """Return a sentence if there are no two such clients or no common test set."""
        there = len(run.facts.training_ids)
        if self.first == self.second or max(self.first, self.second) >= there:
            return (
                f"plane(first={self.first}, second={self.second}) needs two clients; accepted: two of 0 to {there - 1}"
            )
        return None

    def whom(self, run: RunFacts) -> list[int]:
        """Return the two clients."""
        return [run.facts.training_ids[place] for place in (self.first, self.second)]

    def at_client(self, here: ClientScope) -> Message:
        """Return the client's own weights."""
        own = here.own_weights(self.trains)
        return {} if own is None else {_W: own}

    def found(self, run: RunFacts, replies: Mapping[int, Message]) -> Finding:
        """Return the loss on the plane as a picture, with the three models marked."""
        asked = self.whom(run)
        if run.generic is None or not all(_W in replies.get(i, {}) for i in asked):
            return Finding(notes=["plane: there is no generic model, or no two clients have weights of their own"])
        if run.facts.test is None:
            return Finding(notes=["plane: there is no common test set (data.pool, data.test_share)"])
        w_1, w_2 = (tensor(replies[i], _W) for i in asked)
        if torch.equal(w_1, run.generic) or torch.equal(w_2, run.generic):
            return Finding(notes=["plane: clients' own models are the generic one; accepted: plane(model=trained)"])
        some = ClientScope.spread_over_classes(run.facts.test, self.samples)
        losses = [[loss_at(run, self.point(run.generic, w_1, w_2, s, t), some) for s in self.grid] for t in self.grid]
        names = [run.names[i] for i in asked]
        picture = LearnedFigure.heatmap(
            "plane" if self.model == "own" else "plane-trained",
            f"Loss on the plane through the generic model and those of clients {names[0]} and {names[1]}",
            "The generic model is at 0, 0; the clients' are at 1, 0 and 0, 1. Pale cells between them are low loss.",
            losses[::-1],  # t grows upwards
            x=Axis(f"s, towards client {names[0]}", tuple(self.grid)),
            y=Axis(f"t, towards client {names[1]}", tuple(self.grid[::-1])),
        )
        return Finding(figures_learned=[picture])

    @staticmethod
    def point(w_G: Tensor, w_1: Tensor, w_2: Tensor, s: float, t: float) -> Tensor:
        """Return w_G + s(w_1 − w_G) + t(w_2 − w_G)."""
        return w_G + s * (w_1 - w_G) + t * (w_2 - w_G)


def loss_at(run: RunFacts, w: Tensor, samples: Samples) -> float | None:
    """Return the mean loss of the plain net with these weights."""
    Layout(run.net).bind(run.net, w)
    said = one_pass(run.net, samples, [LOSS], run.facts.classes)
    return share_right(said.right[LOSS.name], said.counts)
