"""PGFed's explicit objective itself (Luo et al. 2023, Eq. 4): a reference for what PGFed approximates (Figure 2)."""

from collections.abc import Mapping
from itertools import accumulate, pairwise
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from motet.config.section import Section, tried
from motet.data import Samples
from motet.messages.message import Message, State, tensor
from motet.messages.replies import Rule
from motet.methods.averaging import Averaging
from motet.methods.base import Facts, Learned, LearnedFigure, MethodEntry
from motet.methods.base.method import COPIES, MemoryNeed
from motet.nets import Net
from motet.training.client import Client

W, A = "pgfed-exact.W", "pgfed-exact.A"


class PGFedExact(Averaging):
    """F_i(θ_i, α_i) = f_i(θ_i) + μ Σ_j α_ij f_j(θ_i), by SGD with the others' own samples and no expansion.

    ∂F_i/∂α_ij = μ f_j(θ_i), which is never negative: α can only fall. j runs over all training clients, with i. It
    takes everybody's data in one place and N models, and is for small federations.
    """

    pooled = True
    personalizes = True
    personal_from_global = True  # θ_i is where the pooled data are; no client trains
    averages: ClassVar[bool] = False
    uploads: Mapping[str, Rule] = {W: "each", A: "each", "n": "sum"}

    class Options(Section):
        """Options of `pgfed-exact(...)`."""

        mu: float = Field(
            0.1, ge=0, description="μ, weight of the others' risks", json_schema_extra=tried(0.1, 0.05, 0.01)
        )
        eta2: float = Field(1e-3, ge=0, description="η₂, step size of α; 0: α stays at 1/N")

    options: Options

    @classmethod
    def memory(cls, options: Any, net: Net, facts: Facts, model: int) -> MemoryNeed:
        """Return the memory of N models."""
        return MemoryNeed(COPIES * facts.clients * model, accepted="fewer clients, data.clients")

    def start(self) -> State:
        """θ_i = the first weights and α_ij = 1/N for all clients"""
        N = self.facts.clients
        return super().start() | {W: self.fresh.repeat(N, 1), A: torch.full((N, N), 1 / N)}

    def broadcast(self, server: State, client_id: int, scoring: bool = False) -> Message:
        """θ_i for a client; the mean of all for a new one; everything for who trains"""
        if client_id in self.facts.ids:
            return {"w": tensor(server, W)[self.facts.ids.index(client_id)]}
        return {"w": server["w"]} if scoring or client_id >= 0 else {W: server[W], A: server[A]}

    def aggregate(self, server: State, replies: Mapping[int, Message]) -> State:
        """Keep the models that the one trainer made; their mean is the generic model."""
        (reply,) = replies.values()
        return {**server, W: reply[W], A: reply[A], "w": self.layout.keep(tensor(reply, W).mean(0), self.fresh)}

    def train(self, client: Client, message: Message) -> Message:
        """Train θ_i and α_i of every client i for the local epochs of its own data.

        A client by itself, in a last training for scores or figures, goes on from its θ_i as FedAvg's do.
        """
        if W not in message:
            return super().train(client, message)
        models, alphas = tensor(message, W).clone(), tensor(message, A).clone()
        ends = accumulate(self.facts.samples, initial=0)
        data = [client.data.train.part(*between) for between in pairwise(ends)]
        for i, own in enumerate(data):
            models[i], alphas[i] = self.train_one(client, i, own, data, models[i].clone(), alphas[i])
        client.offer_model(models.mean(0))
        return {W: models, A: alphas, "n": client.samples}

    def train_one(
        self, client: Client, i: int, own: Samples, data: list[Samples], w: Tensor, alpha: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return θ_i and α_i after SGD on F_i: a step takes a batch of client i and one of every client j."""
        mu, eta2 = self.options.mu, self.options.eta2
        descent, rng = client.descent(f"pgfed-exact-{i}"), client.rng(f"pgfed-exact-others-{i}")
        g, moving = torch.zeros_like(w), self.layout.trainable
        self.layout.bind(self.net.train(), w, g)

        def gradient(x: Tensor, y: Tensor) -> None:
            nonlocal alpha
            batches = [drawn(samples, client.local.batch, rng) for samples in data] if mu else []
            xs, ys = zip((x, y), *batches, strict=True)
            with self.net.collecting():
                logits = self.net(torch.cat([each.to(w.device) for each in xs]))
                f, *others = (
                    self.net.training_loss(said, of.to(w.device))
                    for said, of in zip(logits.split([len(of) for of in ys]), ys, strict=True)
                )
                risks = torch.stack(others) if others else torch.zeros(len(data)).to(w)
                (f + mu * (alpha @ risks)).backward()  # type: ignore[no-untyped-call]
            alpha = (alpha - eta2 * mu * risks.detach()).clamp_min(0)

        descent.run(own, w[moving], g[moving], gradient)
        return w, alpha

    def figures_learned(self, learned: Learned) -> list[LearnedFigure]:
        """A"""
        return [
            LearnedFigure.heatmap(
                "pgfed-exact-weights",
                "PGFed's exact objective: how much each client takes from each other one (α)",
                "Low cells are clients whose risk is high under the other's model: they take little from each other.",
                tensor(learned.server, A),
                x=learned.clients("client j, from whom"),
                y=learned.clients("client i, who takes"),
            )
        ]


def drawn(samples: Samples, size: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return a random batch of so many samples, or of all if there are fewer."""
    return samples.batch(torch.randperm(len(samples), generator=rng)[:size])


ENTRY = MethodEntry(
    "pgfed-exact",
    "PGFed's objective without its expansion: a yardstick",
    "Luo et al. 2023",
    whole=PGFedExact,
    stays="nothing",
    down="0",
    up="all data",
)
