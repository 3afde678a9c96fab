"""L2GD (Hanzely and Richtárik 2020): local steps, and at random times a step towards the mean of all models."""

from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from motet.config.section import tried
from motet.data import Samples
from motet.messages.message import Message, State, tensor
from motet.methods.averaging import Averaging
from motet.methods.base import Facts, MethodEntry, Training
from motet.training.client import Client


class L2GD(Averaging):
    """min (1/N)Σ f_i(x_i) + (λ/2N)Σ‖x_i − x̄‖² (Algorithm 1). A round is an iteration of all clients:

    with probability 1 − p all take x_i ← x_i − η/(N(1 − p))·∇f_i(x_i), else x_i ← x_i − ηλ/(Np)·(x_i − x̄) with the
    exact mean x̄, which is also the generic model. η is N times the local learning rate, which makes up for the 1/N of
    the objective; a local iteration is a local training. The personal model is x_i.
    """

    recipe: ClassVar[Literal["samples", "uniform"]] = "uniform"

    class Options(Averaging.Options):
        """Options of `l2gd(...)`."""

        lam: float = Field(
            0.1, ge=0, description="λ, how strongly the x_i are held together", json_schema_extra=tried(0.01, 0.1, 1.0)
        )
        p: float = Field(0.1, ge=0, lt=1, description="p, chance of a step towards the mean")
        steps: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
            "auto",
            description="gradient steps in a local iteration (the algorithm: 1); auto: a local training as in FedAvg",
        )
        rate: Literal["scaled", "literal"] = Field(
            "scaled",
            description="η is N times the local learning rate, so that the objective's 1/N does not slow the steps "
            "down, or that rate itself",
        )

    options: Options

    def refuse(self, facts: Facts) -> str | None:
        """Return a sentence unless all clients take part in every round: x̄ is the mean of all."""
        if facts.cohort < facts.clients:
            return f"l2gd asks all {facts.clients} clients in every round; accepted: rounds.cohort = 1.0"
        return super().refuse(facts)

    def broadcast(self, server: State, client_id: int, scoring: bool = False) -> Message:
        """Return x̄, and which of the two steps this iteration takes."""
        coin = float(torch.rand((), generator=self.serving(server).rng("l2gd"), dtype=torch.float64))
        extra: Message = {} if scoring else {"l2gd.average": coin < self.options.p}
        return super().broadcast(server, client_id, scoring) | extra

    def round_training(self, client: Client, message: Message) -> Training:
        """Return a training from x_i, at the learning rate of a local iteration."""
        descent = client.descent(lr=self.eta(client) / (self.facts.clients * (1 - self.options.p)))
        if self.options.steps != "auto":
            descent.settings = descent.settings.model_copy(update={"steps": self.options.steps})
        t = self.training(client, message, self.parts, descent, self.x(client, message))
        t["l2gd.average"] = torch.tensor(bool(message["l2gd.average"]))
        return t

    def learn(self, t: Training, samples: Samples) -> None:
        """Take a local iteration, or a step towards x̄; a client that adapts takes local steps."""
        if "l2gd.average" not in t.values or not t["l2gd.average"]:
            super().learn(t, samples)
        else:
            t.w.sub_(
                t.w - t.start,
                alpha=min(1.0, self.eta(t.client) * self.options.lam / (self.facts.clients * self.options.p)),
            )

    def eta(self, client: Client) -> float:
        """η, whose steps the algorithm divides by N"""
        return client.lr * (self.facts.clients if self.options.rate == "scaled" else 1)

    def end_round(self, t: Training) -> Message:
        """Keep x_i, and return it as the reply."""
        t.client.private["l2gd.x"] = t.w
        return super().end_round(t)

    def x(self, client: Client, message: Message) -> Tensor:
        """x_i, which begins at x̄"""
        return tensor({"l2gd.x": self.received(client, message), **client.private}, "l2gd.x")

    def personal_weights(self, client: Client, message: Message) -> Tensor | None:
        """x_i"""
        return self.x(client, message)


ENTRY = MethodEntry(
    "l2gd",
    "local steps, and steps towards the mean by chance",
    "Hanzely and Richtárik 2020",
    whole=L2GD,
)
