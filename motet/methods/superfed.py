"""SuPerFed (Hahn, Jeong and Lee, KDD 2022): a low-loss line between the global and each client's local model."""

import math
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from motet.client import Client
from motet.message import Message, State, number, tensor
from motet.methods.averaging import Averaging
from motet.methods.method import Facts
from motet.methods.part import Part
from motet.nets import Net
from motet.rng import seeded

GRID = tuple(tenths / 10 for tenths in range(11))


class SuPerFedMM(Averaging):
    """Model Mixing: W(λ) = (1 − λ)w^f + λw^l with one λ ∼ U(0, 1) per mini-batch, both ends trained in one pass.

    The server's side is FedAvg's (Algorithm 2). Only trainable weights are mixed and regularized; BatchNorm
    statistics are those of the mixture and travel with w^f.
    """

    class Options(Averaging.Options):
        """Options of `superfed-mm(...)`."""

        mu: float = Field(0.01, ge=0, description="μ, how strongly w^f stays near the global model")
        nu: float = Field(1.0, ge=0, description="ν, how strongly w^f and w^l are made orthogonal")
        start: float = Field(0.4, ge=0, le=1, description="L/R, share of the rounds before personalization starts")
        prox: Literal["squared", "sum_of_norms"] = Field(
            "squared", description="‖w^f − w^g‖² of the paper, or the released code's sum of each tensor's norm"
        )
        local_init: Literal["fresh", "copy_global"] = Field(
            "fresh", description="w^l starts at random weights of its own, or (Algorithm 1) at the global model"
        )
        lambda_eval: Literal["common_best", "validation", "oracle", "fixed"] = Field(
            "common_best",
            description="λ reported: the best mean over clients; each client's best on its validation data; "
            "each client's best on its test data (an upper bound); or `lam`",
        )
        lam: float = Field(0.5, ge=0, le=1, description="λ of the rule `fixed` and of the model handed out")

    def __init__(self, net: Net, options: Options, parts: Sequence[Part]):
        super().__init__(net, options, parts)
        self.options, self.mixed = options, self.layout.trainable
        places = {name: p.where.stop - p.where.start for name, p in self.layout.places.items() if not p.is_buffer}
        self.tensors = list(places.values())
        owners = groupby(places, key=lambda name: name.rpartition(".")[0])  # weight and bias share their module's λ
        self.modules = [sum(places[name] for name in names) for _, names in owners]
        self.family = tuple(str(lam) for lam in sorted({*GRID, options.lam}))
        self.family_rule, self.family_fixed = options.lambda_eval, str(options.lam)

    def start(self, facts: Facts) -> State:
        """w^g, and L = ⌊start·R⌋, the number of rounds that every client lets pass before it mixes."""
        return super().start(facts) | {"superfed.L": math.floor(self.options.start * facts.rounds + 1e-9)}

    def broadcast(self, server: State, client_id: int) -> Message:
        """w^g and L."""
        return super().broadcast(server, client_id) | {"superfed.L": server["superfed.L"]}

    def train(self, client: Client, message: Message) -> Message:
        """Algorithm 1. Before round L, λ = 0 and w^l rests: no gradient, no momentum, no weight decay."""
        w = tensor(message, "w").clone()  # what the net computes with: W(λ), and statistics
        g = torch.zeros_like(w)
        w_g = w[self.mixed].clone()
        mixing = client.round > number(message, "superfed.L")
        ends = torch.cat([w_g, self.local_model(client, w_g)])
        g_ends = torch.zeros_like(ends)
        (w_f, w_l), (g_f, g_l) = ends.chunk(2), g_ends.chunk(2)
        rng = client.rng("superfed-lambda")
        self.layout.bind(self.net, w, g)
        self.net.train()

        def gradient(x: Tensor, y: Tensor) -> None:
            lam = self.draw(rng) if mixing else torch.tensor(0.0)
            torch.lerp(w_f, w_l, lam, out=w[self.mixed])
            g.zero_()
            cross_entropy(self.net(x), y).backward()  # type: ignore[no-untyped-call]
            torch.mul(g[self.mixed], 1 - lam, out=g_f)  # Eq. 5: (1 − λ)·∂l/∂W
            torch.mul(g[self.mixed], lam, out=g_l)  # Eq. 6: λ·∂l/∂W
            if self.options.mu:
                self.add_proximity(g_f, w_f - w_g)
            if self.options.nu and mixing:
                add_cos2(g_f, g_l, w_f, w_l, self.options.nu)

        moving = slice(0, len(ends) if mixing else len(w_f))
        self.descend(client, ends[moving], g_ends[moving], gradient)
        client.private["superfed.w_l"] = w_l.clone()
        w[self.mixed] = w_f
        return {"w": w, "n": client.samples}

    def descend(self, client: Client, w: Tensor, g: Tensor, gradient: Callable[[Tensor, Tensor], None]) -> None:
        """The local loop; where momentum persists across rounds, that of w^l begins at zero in round L."""
        persist = client.local.momentum_across_rounds == "persist"
        descent, kept = client.descent(), client.private.get("velocity")
        if persist and isinstance(kept, Tensor):
            descent.velocity = torch.cat([kept, kept.new_zeros(len(w) - len(kept))])
        descent.run(client.data.train, w, g, gradient)
        if persist and descent.velocity is not None:
            client.private["velocity"] = descent.velocity

    def draw(self, rng: torch.Generator) -> Tensor:
        """One λ for the whole model."""
        return torch.rand((), generator=rng)

    def add_proximity(self, g_f: Tensor, away: Tensor) -> None:
        """Add μ·∂‖w^f − w^g‖²/∂w^f = 2μ(w^f − w^g), or μ times the gradient of Σ_t ‖w^f_t − w^g_t‖ over tensors t."""
        if self.options.prox == "squared":
            g_f.add_(away, alpha=2 * self.options.mu)
        else:
            g_f.add_(torch.cat([normalize(t, dim=0) for t in torch.split(away, self.tensors)]), alpha=self.options.mu)

    def local_model(self, client: Client, w_g: Tensor) -> Tensor:
        """w^l: the client's own from its first use on, and at first independent of every other model."""
        if "superfed.w_l" not in client.private:
            client.private["superfed.w_l"] = (
                w_g if self.options.local_init == "copy_global" else self.random_local(client)
            )
        return tensor(client.private, "superfed.w_l")

    def random_local(self, client: Client) -> Tensor:
        """Random weights of the client's own (section 3.4)."""
        with seeded(client.seed, "superfed-local", 0, client.id):
            return self.layout.flatten(self.net.another())[self.mixed]

    def member(self, client: Client, message: Message, name: str) -> nn.Module:
        """W(λ) on the line from the global model as received to the client's w^l; one λ, also for LM."""
        w = tensor(message, "w").clone()
        w_g = w[self.mixed].clone()
        w[self.mixed] = w_g.lerp(self.local_model(client, w_g), float(name))
        return self.predictor(client, w)

    def personal(self, client: Client, message: Message) -> nn.Module:
        """The λ fixed in advance; a new client has no w^l and uses the global model (section 3.1, Figure 2C)."""
        return self.member(client, message, "0.0" if client.data.new else self.family_fixed)


class SuPerFedLM(SuPerFedMM):
    """Layer Mixing: an independent λ for each module (section 3.7)."""

    class Options(SuPerFedMM.Options):
        """Options of `superfed-lm(...)`."""

        nu: float = Field(2.0, ge=0, description="ν, how strongly w^f and w^l are made orthogonal")

    def draw(self, rng: torch.Generator) -> Tensor:
        """One λ per module, repeated for each of its weights."""
        drawn = torch.rand(len(self.modules), generator=rng)
        return torch.cat([lam.expand(size) for lam, size in zip(drawn, self.modules, strict=True)])


def add_cos2(g_f: Tensor, g_l: Tensor, w_f: Tensor, w_l: Tensor, nu: float) -> None:
    """Add ν·∂cos²(w^f, w^l) to both gradients: ∂cos²/∂w^f = 2s/(ab)·(w^l − s/a·w^f), where s = ⟨w^f, w^l⟩,
    a = ‖w^f‖², b = ‖w^l‖²; likewise for w^l. It is orthogonal to the weights it moves."""
    s, a, b = float(w_f @ w_l), max(float(w_f @ w_f), 1e-12), max(float(w_l @ w_l), 1e-12)
    pull = 2 * nu * s / (a * b)
    g_f.add_(w_l, alpha=pull).sub_(w_f, alpha=pull * s / a)
    g_l.add_(w_f, alpha=pull).sub_(w_l, alpha=pull * s / b)
