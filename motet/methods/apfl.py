"""APFL (Deng, Kamani and Mahdavi 2020): a mixture of the global model and a local one, with a learned share."""

from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from motet.config.section import tried
from motet.messages.message import Message, number, tensor
from motet.methods.averaging import Averaging
from motet.methods.base import Learned, LearnedFigure, MethodEntry
from motet.training.client import Client


class APFL(Averaging):
    """v̄ = αv + (1 − α)w. Per step w ← w − η∇f(w) and v ← v − ηα∇f(v̄); only w travels, averaged uniformly.

    Adaptive: α ← α − η⟨v − w, ∇f(v̄)⟩, kept in [0, 1], at the first step of each round. The personal model is v̄. (The
    released code mixes outputs instead of weights, and decays α.)
    """

    carries: ClassVar[tuple[str, ...]] = ("*",)
    recipe: ClassVar[Literal["samples", "uniform"]] = "uniform"

    class Options(Averaging.Options):
        """Options of `apfl(...)`."""

        alpha: float = Field(
            0.5,
            ge=0,
            le=1,
            description="α, the local model's share, before a client's first round",
            json_schema_extra=tried(0.25, 0.5, 1.0),
        )
        adaptive: bool = Field(True, description="learn α, or leave it as it is")

    options: Options

    def train(self, client: Client, message: Message) -> Message:
        """Train both models on the same batches, and return the reply."""
        t = self.begin_round(client, message)
        u = self.personal_training(client, message, self.v(client), "apfl")
        models, gradients = torch.stack([t.w, u.w]), torch.zeros(2, len(t.w)).to(t.w)
        (t.w, u.w), (t.g, u.g) = models, gradients
        alpha, first, moving = self.alpha(client), True, self.layout.trainable
        self.net.train()

        def gradient(x: Tensor, y: Tensor) -> None:
            nonlocal alpha, first
            g = u.gradient_at(self.mixed(t.w, u.w, alpha), x, y)  # at the models before the step
            slope = float((u.w - t.w)[moving] @ g[moving])
            u.add(alpha * g)
            t.bind()
            self.gradient(t, x, y)
            if self.options.adaptive and first:
                alpha, first = min(1.0, max(0.0, alpha - t.descent.lr * slope)), False

        samples = client.data.train
        for part in t.parts:
            samples = part.samples(t, samples)
        velocity = client.private.get("apfl.velocity")
        persists = client.local.momentum_across_rounds == "persist"
        t.descent.velocity = velocity.clone() if persists and isinstance(velocity, Tensor) else None
        t.descent.run(samples, models[:, moving], gradients[:, moving], gradient)
        if persists and t.descent.velocity is not None:
            client.private["apfl.velocity"] = t.descent.velocity
        t.descent.velocity = None
        client.private["apfl.v"], client.private["apfl.alpha"] = u.w.clone(), alpha
        t.w = t.w.clone()
        return self.end_round(t)

    def v(self, client: Client) -> Tensor:
        """Return the client's local model v, which begins at the first weights of the run."""
        return tensor({"apfl.v": self.fresh, **client.private}, "apfl.v")

    def alpha(self, client: Client) -> float:
        """Return the client's α."""
        return number({"apfl.alpha": self.options.alpha, **client.private}, "apfl.alpha")

    def mixed(self, w: Tensor, v: Tensor, alpha: float) -> Tensor:
        """v̄ = αv + (1 − α)w, with w's statistics"""
        mixed, moving = w.clone(), self.layout.trainable
        mixed[moving] = alpha * v[moving] + (1 - alpha) * w[moving]
        return mixed

    def personal_weights(self, client: Client, message: Message) -> Tensor | None:
        """v̄, or w at a client that never trained"""
        w = super().personal_weights(client, message)
        if w is None or "apfl.v" not in client.private:
            return w
        return self.mixed(w, self.v(client).to(w), self.alpha(client))

    def local_weights(self, client: Client, message: Message) -> Tensor:
        """v, with w's statistics"""
        w = self.received(client, message)
        return self.layout.convert(self.mixed(w, self.v(client).to(w), 1.0), self.plain)

    def client_snapshot(self, client: Client, message: Message) -> Message:
        """α"""
        return super().client_snapshot(client, message) | {"apfl.alpha": self.alpha(client)}

    def figures_learned(self, learned: Learned) -> list[LearnedFigure]:
        """α of every client"""
        alphas = {"α": [number(snapshot, "apfl.alpha") for snapshot in learned.snapshots.values()]}
        shares = LearnedFigure.bars(
            "apfl-alpha",
            "APFL: each client's share of its own model (α)",
            "A high bar is a client that trusts its own model more than the global one.",
            alphas,
            x=learned.clients_with_snapshot(),
            y="α",
        )
        return [*super().figures_learned(learned), *([shares] if learned.snapshots else [])]


ENTRY = MethodEntry(
    "apfl",
    "a learned mixture of the global and a local model",
    "Deng et al. 2020",
    whole=APFL,
    stays="its local model v and α",
)
