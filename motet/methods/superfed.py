"""SuPerFed (Hahn, Jeong and Lee, KDD 2022): a low-loss line between the global and each client's local model."""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import normalize

from motet.config.section import tried
from motet.messages.message import Message, State, number, tensor
from motet.methods.averaging import Averaging
from motet.methods.base import Axis, Facts, Family, Learned, LearnedFigure, MethodEntry, Part
from motet.nets import Net
from motet.training.client import Client
from motet.training.flat_weights import Place
from motet.training.randomness import seeded

GRID = tuple(tenths / 10 for tenths in range(11))


class SuPerFedMM(Averaging):
    """Model Mixing: W(λ) = (1 − λ)w^f + λw^l with one λ ∼ U(0, 1) per mini-batch, both ends trained in one pass.

    The server's side is FedAvg's (Algorithm 2). Only trainable weights are mixed and regularized; BatchNorm
    statistics are those of the mixture and travel with w^f.
    """

    personal_from_global = True  # W(λ) begins at the global model as received

    class Options(Averaging.Options):
        """Options of `superfed-mm(...)`."""

        mu: float = Field(
            0.01,
            ge=0,
            description="μ, how strongly w^f stays near the global model",
            json_schema_extra=tried(0.0, 0.01, 0.1, 1.0),
        )
        nu: float = Field(
            1.0,
            ge=0,
            description="ν, how strongly w^f and w^l are made orthogonal",
            json_schema_extra=tried(0.0, 1.0, 2.0, 5.0),
        )
        start: float = Field(
            0.4,
            ge=0,
            le=1,
            description="L/R, share of the rounds before personalization starts",
            json_schema_extra=tried(0.2, 0.4, 0.6),
        )
        prox: Literal["squared", "sum_of_norms"] = Field(
            "squared", description="‖w^f − w^g‖² of the paper, or the released code's sum of each tensor's norm"
        )
        local_init: Literal["auto", "fresh", "copy_global", "at_mixing"] = Field(
            "auto",
            description="w^l starts at random weights of its own; at the first global model received (Algorithm 1); or "
            "at the one received in the round in which the client begins to mix; auto: at_mixing, and fresh in the "
            "paper's own protocol",
        )
        lr_compensation: bool | Literal["auto"] = Field(
            "auto",
            description="let W(λ) move as far as FedAvg's model does; false: (1 − λ)² + λ² of it, as printed; auto: "
            "true, and false in the paper's own protocol",
        )
        nu_from: Literal["first_round", "mixing"] = Field(
            "first_round",
            description="when ν begins to act: in the first round (Eq. 4), or with the mixing (the released code)",
        )
        lambda_eval: Literal["auto", "common_best", "common_validation", "validation", "oracle", "fixed"] = Field(
            "auto",
            description="λ reported: the best mean over clients, on test data (common_best) or on validation data "
            "(common_validation); each client's best on its validation data; each client's best on its test data (an "
            "upper bound); or `lam`; auto: common_validation where clients have such data, else fixed, and common_best "
            "in the paper's own protocol",
            json_schema_extra=tried("common_validation"),
        )
        lam: float = Field(0.5, ge=0, le=1, description="λ of the rule `fixed`")

    options: Options

    @classmethod
    def settled(cls, options: Options, net: Net, facts: Facts) -> Options:
        """Return the options as the paper has them in its own protocol; elsewhere with a rule for λ that looks at no
        test data, and with a line that also few rounds can train."""
        papers = facts.protocol == "superfed"
        without_tests = "common_validation" if facts.validating else "fixed"
        decided = {
            "local_init": "fresh" if papers else "at_mixing",
            "lr_compensation": not papers,
            "lambda_eval": "common_best" if papers else without_tests,
        }
        left = {name: value for name, value in decided.items() if getattr(options, name) == "auto"}
        return options.model_copy(update=left)

    def __init__(self, net: Net, options: Options, parts: Sequence[Part], facts: Facts):
        super().__init__(net, options, parts, facts)
        assert options.lambda_eval != "auto", "settled when the method is built"
        assert "auto" not in (options.local_init, options.lr_compensation), "settled with it"
        self.mixed = self.layout.trainable
        places = {name: p for name, p in self.layout.places.items() if p.is_trained}
        self.tensors = [p.where.stop - p.where.start for p in places.values()]
        mu = options.mu if options.prox == "squared" else 0.0
        self.pull = torch.tensor([[2 * mu, 0.0, -2 * mu, 0.0], [0.0, 0.0, 0.0, 0.0]])  # towards w^g
        start = self.mixed.start
        self.stretches = [slice(s.start - start, s.stop - start) for s in self.stretches_of(places)]
        members = tuple(str(lam) for lam in sorted({*GRID, options.lam}))
        self.family = Family(members, fixed=str(options.lam), rule=options.lambda_eval)

    def stretches_of(self, places: Mapping[str, Place]) -> list[slice]:
        """Return the slices of the weights that have a λ of their own: here one for all."""
        return [_span([*places.values()])]

    def refuse(self, facts: Facts) -> str | None:
        """Return a sentence if λ is chosen by validation data and clients have none."""
        if self.family and self.family.validates and not facts.validating:
            return (
                f"lambda_eval is {self.options.lambda_eval!r} but no client has validation data; "
                "accepted: a data.val_share above 0, or common_best | oracle | fixed"
            )
        return super().refuse(facts)

    @property
    def settled_after(self) -> int:
        """L = ⌊start·R⌋, the number of rounds before a client begins to mix"""
        return math.floor(self.options.start * self.facts.rounds + 1e-9)

    def start(self) -> State:
        """w^g, and L"""
        return super().start() | {"superfed.L": self.settled_after}

    def broadcast(self, server: State, client_id: int, scoring: bool = False) -> Message:
        """w^g, and L for clients that train"""
        extra: Message = {} if scoring else {"superfed.L": server["superfed.L"]}
        return super().broadcast(server, client_id, scoring) | extra

    def train(self, client: Client, message: Message) -> Message:
        """Algorithm 1. Before round L, λ = 0: ν alone moves w^l then, or nothing if it does not act yet or there is no
        w^l before the mixing."""
        sent, mixing = tensor(message, "w"), client.round > number(message, "superfed.L")
        has_own = mixing or self.options.local_init != "at_mixing"
        nu = self.options.nu if mixing or (has_own and self.options.nu_from == "first_round") else 0.0
        models = sent.repeat(4, 1)
        models[1, self.mixed], models[3] = self.local_model(client, sent[self.mixed]), 0
        w, g, four = sent.clone(), models[3], models[:, self.mixed]  # the net computes with W(λ) in w, and fills g
        W, (w_f, w_l, w_g, _) = w[self.mixed], four
        ends = four[:2] if mixing or nu else four[:1]
        g_ends = torch.zeros_like(ends)
        rng = client.rng("superfed-lambda")
        self.layout.bind(self.net, w, g)
        self.net.train()

        def gradient(x: Tensor, y: Tensor) -> Tensor:
            lams = self.draw(rng) if mixing else [0.0] * len(self.stretches)
            for lam, s in zip(lams, self.stretches, strict=True):
                torch.lerp(w_f[s], w_l[s], lam, out=W[s])
            g.zero_()
            loss = self.net.add_gradient(x, y)
            cos2 = cos2_shares(w_f, w_l, nu)
            for lam, s in zip(lams, self.stretches, strict=True):
                g_ends[:, s].addmm_(self.shares(lam, cos2).to(g)[: len(ends)], four[:, s])
            if self.options.prox == "sum_of_norms":
                self.add_norms(g_ends[0], w_f - w_g)
            return loss

        self.descend(client, ends, g_ends, gradient)
        if has_own:
            client.private["superfed.w_l"] = w_l.clone()
        w[self.mixed] = w_f
        return {"w": w, "n": client.samples}

    def shares(self, lam: float, cos2: Tensor) -> Tensor:
        """How both ends' gradients are made of the four vectors w^f, w^l, w^g and g = ∂l/∂W (Eqs. 5 and 6):
        (1 − λ)g + 2μ(w^f − w^g) + ν·∂cos²/∂w^f and λg + ν·∂cos²/∂w^l. One product makes them both.

        So g moves W(λ) by η((1 − λ)² + λ²)g in a plain step. With `lr_compensation` its shares are divided by that sum,
        and W(λ) moves by ηg, as FedAvg's model does.
        """
        moved = (1 - lam) ** 2 + lam**2 if self.options.lr_compensation else 1.0
        return torch.cat([cos2, torch.tensor([[0.0, (1 - lam) / moved], [0.0, lam / moved]])], 1) + self.pull

    def descend(self, client: Client, w: Tensor, g: Tensor, gradient: Callable[[Tensor, Tensor], Tensor]) -> None:
        """Run the local steps; where momentum persists across rounds, that of w^l begins at zero when it moves."""
        persist = client.local.momentum_across_rounds == "persist"
        descent, kept = client.descent(), client.private.get("velocity")
        if persist and isinstance(kept, Tensor):
            descent.velocity = torch.cat([kept, kept.new_zeros(len(w) - len(kept), w.shape[1])])
        descent.run(client.data.train, w, g, lambda x, y: descent.note(gradient(x, y), len(y)))
        if persist and descent.velocity is not None:
            client.private["velocity"] = descent.velocity

    def draw(self, rng: torch.Generator) -> list[float]:
        """Return λ of each slice of the model: one for all."""
        return torch.rand(len(self.stretches), generator=rng).tolist()

    def add_norms(self, g_f: Tensor, away: Tensor) -> None:
        """Add μ times the gradient of Σ_t ‖w^f_t − w^g_t‖ over tensors t."""
        g_f.add_(torch.cat([normalize(t, dim=0) for t in torch.split(away, self.tensors)]), alpha=self.options.mu)

    def local_model(self, client: Client, w_g: Tensor) -> Tensor:
        """w^l as the client keeps it from its first use on. With `at_mixing` that is its first training after round L:
        until then w^l is the global model as just received, wherever it is asked for, and nothing is kept."""
        if "superfed.w_l" not in client.private:
            if self.options.local_init == "at_mixing":
                return w_g
            client.private["superfed.w_l"] = (
                w_g if self.options.local_init == "copy_global" else self.random_local(client)
            )
        return tensor(client.private, "superfed.w_l")

    def random_local(self, client: Client) -> Tensor:
        """Return random weights that only this client draws (section 3.4)."""
        with seeded(client.seed, "superfed-local", 0, client.id):
            return self.layout.flatten(self.net.another())[self.mixed]

    def member(self, client: Client, message: Message, name: str) -> nn.Module:
        """W(λ) on the line from the global model as received to the client's w^l; one λ, also for LM."""
        w = tensor(message, "w").clone()
        w_g = w[self.mixed].clone()
        w[self.mixed] = w_g.lerp(self.local_model(client, w_g), float(name))
        return self.predictor(client, w)

    def local_weights(self, client: Client, message: Message) -> Tensor:
        """w^l, with the statistics of the global model"""
        w = tensor(message, "w").clone()
        w[self.mixed] = self.local_model(client, w[self.mixed].clone())
        return self.layout.convert(w, self.plain)

    def personal(self, client: Client, message: Message) -> nn.Module:
        """Return W(λ) with the λ fixed in advance; a new client has no w^l and uses the global model (section 3.1,
        Figure 2C)."""
        return self.member(client, message, "0.0" if client.data.new else str(self.options.lam))

    def figures_learned(self, learned: Learned) -> list[LearnedFigure]:
        """The mean accuracy of W(λ) over clients, as it was scored"""
        if not learned.members:
            return super().figures_learned(learned)
        curve = LearnedFigure.lines(
            "superfed-line",
            "SuPerFed: accuracy along the line from the global to the own model",
            "Left is the global model, right each client's own; a flat or raised middle is the low-loss line.",
            {"mean over clients": [*learned.members.values()]},
            x=Axis("λ", tuple(map(float, learned.members))),
            y="accuracy",
        )
        return [*super().figures_learned(learned), curve]


class SuPerFedLM(SuPerFedMM):
    """Layer Mixing: an independent λ for each module (section 3.7)."""

    class Options(SuPerFedMM.Options):
        """Options of `superfed-lm(...)`."""

        nu: float = Field(
            2.0,
            ge=0,
            description="ν, how strongly w^f and w^l are made orthogonal",
            json_schema_extra=tried(0.0, 1.0, 2.0, 5.0),
        )

    def stretches_of(self, places: Mapping[str, Place]) -> list[slice]:
        """Return one slice per module: weight and bias share their λ."""
        modules = groupby(places.items(), key=lambda item: item[0].rpartition(".")[0])
        return [_span([place for _, place in owned]) for _, owned in modules]


def cos2_shares(w_f: Tensor, w_l: Tensor, nu: float) -> Tensor:
    """ν·∂cos² for both ends as shares of w^f and w^l: ∂cos²/∂w^f = 2s/(ab)·(w^l − s/a·w^f), where s = ⟨w^f, w^l⟩,
    a = ‖w^f‖², b = ‖w^l‖²; likewise for w^l. It is orthogonal to the weights it moves."""
    if not nu:
        return torch.zeros(2, 2)
    s, a, b = float(w_f @ w_l), max(float(w_f @ w_f), 1e-12), max(float(w_l @ w_l), 1e-12)
    pull = 2 * nu * s / (a * b)
    return torch.tensor([[-pull * s / a, pull], [pull, -pull * s / b]])


def _span(places: Sequence[Place]) -> slice:
    return slice(places[0].where.start, places[-1].where.stop)


ENTRIES = (
    MethodEntry(
        "superfed-mm",
        "a line of good models from global to local",
        "Hahn et al. 2022",
        whole=SuPerFedMM,
        stays="its local model w^l",
    ),
    MethodEntry(
        "superfed-lm",
        "SuPerFed that mixes layer by layer",
        "Hahn et al. 2022",
        whole=SuPerFedLM,
        stays="its local model w^l",
    ),
)
