"""PGFed and PGFedMo (Luo et al. 2023): each client's own global objective, with the others' risks to first order."""

from collections.abc import Iterable, Mapping
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from motet.config.section import tried
from motet.messages.message import Message, State, number, tensor
from motet.messages.replies import Rule
from motet.methods.base import Axis, Learned, LearnedFigure, MethodEntry, Part, Serving, Training
from motet.methods.base.method import COPIES, Facts, MemoryNeed
from motet.nets import Net
from motet.training.client import Client

PASS_BATCH = 100  # about the fastest on a CPU; the mean over samples does not depend on it


class PGFed(Part):
    """F_i(θ_i, α_i) = f_i(θ_i) + μ Σ_j α_ij f_j(θ_i) (Eq. 5), with f_j expanded at client j's model θ_j (Eq. 7).

    j runs over the last cohort S_{t−1} (Algorithm 1), which may include i. f_i is the whole local objective, so
    in a sum such as fedrod+pgfed the other clients' risks are FED-ROD's too.
    """

    personalizes: ClassVar[bool] = True  # θ_i, which the client's own F_i made of the model it was sent
    serves_adaptation: ClassVar[bool] = False
    serves_prediction: ClassVar[bool] = False
    role: ClassVar[str | None] = "personalized global objective"
    tells: ClassVar[frozenset[str]] = frozenset({"risk and its gradient"})
    uploads: ClassVar[Mapping[str, Rule]] = {"pgfed.G": "each", "pgfed.c": "each", "pgfed.alpha": "each"}

    mu: float = Field(
        0.1,
        ge=0,
        description="μ, weight of the others' risks (the paper's grid: 0.1 down to 0.001)",
        json_schema_extra=tried(0.1, 0.05, 0.01, 0.005, 0.001),
    )
    eta2: float = Field(
        1e-2, ge=0, description="η₂, step size of α (grid: 1e-2, 1e-3, 1e-4)", json_schema_extra=tried(1e-2, 1e-3, 1e-4)
    )
    clip: bool = Field(True, description="keep α from falling below zero, as the authors' code does")
    grad_pass: Literal["full", "drop_last"] = Field(
        "full", description="∇f_i over all training data, or without the last, smaller batch of a shuffled pass"
    )

    def memory(self, net: Net, facts: Facts, model: int) -> MemoryNeed:
        """Return the memory of A, which is N × N."""
        return MemoryNeed(COPIES * 4 * facts.clients**2, accepted="fewer clients, data.clients")

    def start(self, s: Serving) -> None:
        """α_ij = 1/M; rows and columns of A in the order of client ids."""
        s.state["pgfed.ids"] = torch.tensor(sorted(s.facts.ids))
        s.state["pgfed.A"] = torch.full((s.facts.clients, s.facts.clients), 1 / s.facts.cohort)

    def broadcast(self, s: Serving, client_id: int, message: Message) -> None:
        """g̃ = μ Σ_j α_ij ∇f_j(θ_j) (Eq. 10), ḡ (Eq. 12), {c_j}, α_i; nothing in round one or to a new client."""
        server = s.state
        if "pgfed.G" not in server or not (tensor(server, "pgfed.ids") == client_id).any():
            return
        alpha = tensor(server, "pgfed.A")[_places(server, [client_id]), _last_cohort(server)]
        message["pgfed.g"] = self.mu * (alpha @ tensor(server, "pgfed.G"))
        message["pgfed.g_bar"] = server["pgfed.g_bar"]
        message["pgfed.c"], message["pgfed.alpha"] = server["pgfed.c"], alpha

    def before(self, t: Training, message: Message) -> None:
        """g̃_i ← g̃; round one is plain FedAvg"""
        if "pgfed.g" in message:
            t["pgfed.g"] = self.auxiliary_gradient(t.client, tensor(message, "pgfed.g"))
            for name in ("pgfed.g_bar", "pgfed.c", "pgfed.alpha"):
                t[name] = tensor(message, name)

    def auxiliary_gradient(self, client: Client, g: Tensor) -> Tensor:
        """g̃_i of this round from the g̃ that the server sent."""
        return g

    def correct(self, t: Training) -> None:
        """∇ += g̃_i (Eq. 10);  α_ij ← α_ij − η₂(c_j + ⟨ḡ, θ_i⟩) (Eqs. 11 and 12)"""
        if "pgfed.g" in t.values:
            alpha = t["pgfed.alpha"] - self.eta2 * (t["pgfed.c"] + t["pgfed.g_bar"] @ t.shared)
            t["pgfed.alpha"] = alpha.clamp_min(0) if self.clip else alpha
            t.g_shared.add_(t["pgfed.g"])

    def after(self, t: Training, reply: Message) -> None:
        """∇f_i(θ_i) and c_i = μ(f_i(θ_i) − ⟨∇f_i(θ_i), θ_i⟩) at the final θ_i, for the next round; α_i"""
        f, G = self.risk(t)
        reply["pgfed.G"], reply["pgfed.c"] = G, float(self.mu * (f - G @ t.shared))
        if "pgfed.alpha" in t.values:
            reply["pgfed.alpha"] = t["pgfed.alpha"]

    def risk(self, t: Training) -> tuple[Tensor, Tensor]:
        """f_i and ∇f_i on the client's data, without corrections; in eval mode, which leaves statistics alone."""
        samples, batch = t.client.data.train, t.client.local.batch
        for part in t.parts:
            samples = part.samples(t, samples)
        if self.grad_pass == "drop_last" and len(samples) > batch:
            order = torch.randperm(len(samples), generator=t.client.rng("pgfed-gradient"))
            samples = samples.take(order[: len(order) - len(order) % batch])
        f, g = torch.zeros((), device=t.w.device), torch.zeros_like(t.w)  # t.g still holds the momentum
        with t.at(t.w, g):
            t.net.eval()
            for x, y in samples.all_batches(PASS_BATCH):
                f = f + t.add_gradient(x.to(t.w.device), y.to(t.w.device), len(y) / len(samples))
        return f, g[t.layout.shared_trainable].clone()

    def aggregate(self, s: Serving, replies: Mapping[int, Message]) -> None:
        """A[i] ← α_i on the columns of S_{t−1};  {∇f_j, c_j} and ḡ = (μ/M) Σ_j ∇f_j (Eq. 12) of this round replace
        the last one's."""
        server = s.state
        if "pgfed.G" in server:
            A, learned = tensor(server, "pgfed.A").clone(), _stack(replies, "pgfed.alpha")
            A[_places(server, replies)[:, None], _last_cohort(server)] = learned
            server["pgfed.A"], server["pgfed.learned"] = A, learned
        G = _stack(replies, "pgfed.G")
        server["pgfed.G"], server["pgfed.g_bar"] = G, self.mu * G.mean(0)
        server["pgfed.c"] = torch.tensor([number(r, "pgfed.c") for r in replies.values()])
        server["pgfed.cohort"] = torch.tensor([*replies])

    def diagnostics(self, s: Serving) -> dict[str, float]:
        """Return figures of α of this round's clients: its share at zero says how much of PGFed is left, and
        `pgfed_alpha_moved` how far α is from where it began, 1/M, as a share of that: near 0 it is frozen."""
        alpha = tensor(s.state, "pgfed.learned" if "pgfed.learned" in s.state else "pgfed.A")
        return {
            "pgfed_alpha_moved": float((alpha * s.facts.cohort - 1).abs().mean()),
            "pgfed_alpha_mean": float(alpha.mean()),
            "pgfed_alpha_min": float(alpha.min()),
            "pgfed_alpha_max": float(alpha.max()),
            "pgfed_alpha_clipped": float((alpha <= 0).float().mean()),
        }

    def figures_learned(self, learned: Learned) -> list[LearnedFigure]:
        """A, α over rounds, and by how much it changed against n (Figure 3)"""
        weights = LearnedFigure.heatmap(
            "pgfed-weights",
            "PGFed: how much each client takes from each other one (α)",
            "High columns are clients whose risk many others weigh; low rows take little from anybody.",
            tensor(learned.server, "pgfed.A"),
            x=learned.clients("client j, from whom"),
            y=learned.clients("client i, who takes"),
        )
        return [weights, *over_rounds(learned), *against_samples(learned)]


class PGFedMo(PGFed):
    """PGFed with momentum in the auxiliary gradient: g̃_i ← (1−β)g̃ + βg̃_i."""

    beta: float = Field(
        0.5,
        ge=0,
        lt=1,
        description="β, momentum of the auxiliary gradient (the paper's grid: 0.2, 0.5, 0.8)",
        json_schema_extra=tried(0.2, 0.5, 0.8),
    )
    mo_first: Literal["full", "scaled"] = Field(
        "full", description="a client's first auxiliary gradient: g̃ as sent (the authors' code), or (1−β)g̃"
    )

    def auxiliary_gradient(self, client: Client, g: Tensor) -> Tensor:
        """g̃_i ← (1−β)g̃ + βg̃_i, with the client's own last g̃_i, however long ago (Algorithm 1, line 20)."""
        if "pgfed.g" in client.private:
            return (1 - self.beta) * g + self.beta * tensor(client.private, "pgfed.g")
        return g if self.mo_first == "full" else (1 - self.beta) * g

    def after(self, t: Training, reply: Message) -> None:
        """Keep g̃_i."""
        super().after(t, reply)
        if "pgfed.g" in t.values:
            t.client.private["pgfed.g"] = t["pgfed.g"]


def over_rounds(learned: Learned) -> list[LearnedFigure]:
    """Return the mean, the smallest and the largest α of each round's clients (Figure 3a)."""
    names = ("mean", "min", "max")
    rounds, values = learned.over_rounds(*(f"pgfed_alpha_{name}" for name in names))
    if not rounds.ticks:
        return []
    return [
        LearnedFigure.lines(
            "pgfed-alpha-rounds",
            "PGFed: α of each round's clients",
            "Lines that stay where they began are weights that do not adapt: η₂ is too small for these risks.",
            dict(zip(("mean", "smallest", "largest"), values, strict=True)),
            x=rounds,
            y="α",
        )
    ]


def against_samples(learned: Learned) -> list[LearnedFigure]:
    """Return by how much α changed from 1/M, of what others take from a client and of what it takes (Figure 3b, c)."""
    cohort = next((len(row["cohort"]) for row in learned.rows if row.get("round")), 0)
    if not cohort or len(learned.samples) < 2:
        return []
    given, taken = changes(tensor(learned.server, "pgfed.A"), 1 / cohort)
    ids = [*learned.samples]
    by_size = sorted(range(len(ids)), key=lambda place: learned.samples[ids[place]])
    return [
        LearnedFigure.lines(
            "pgfed-alpha-samples",
            "PGFed: change of α against the number of a client's samples",
            "Clients by their n. In the paper what others take from a client grows with n, what it takes falls.",
            {
                "taken from the client (α_·j)": [float(given[place]) for place in by_size],
                "taken by the client (α_i·)": [float(taken[place]) for place in by_size],
            },
            x=Axis("training samples n", tuple(learned.samples[ids[place]] for place in by_size)),
            y="mean change of α",
        )
    ]


def changes(alpha: Tensor, first: float) -> tuple[Tensor, Tensor]:
    """Return the mean change of α_·j and of α_i· from their first value, without what a client takes from itself."""
    moved = alpha - first
    moved = moved - torch.diag(moved.diagonal())
    return moved.sum(0) / (len(moved) - 1), moved.sum(1) / (len(moved) - 1)


def _places(server: State, ids: Iterable[int]) -> Tensor:
    """Return where these clients are in A."""
    return torch.searchsorted(tensor(server, "pgfed.ids"), torch.tensor([*ids]))


def _last_cohort(server: State) -> Tensor:
    """Return where S_{t−1} is in A."""
    return torch.searchsorted(tensor(server, "pgfed.ids"), tensor(server, "pgfed.cohort"))


def _stack(replies: Mapping[int, Message], name: str) -> Tensor:
    return torch.stack([tensor(r, name) for r in replies.values()])


ENTRIES = (
    MethodEntry("pgfed", "every client its own global objective", "Luo et al. 2023", part=PGFed, down="3", up="2"),
    MethodEntry(
        "pgfedmo",
        "PGFed with momentum in the auxiliary gradient",
        "Luo et al. 2023",
        part=PGFedMo,
        stays="its auxiliary gradient",
        down="3",
        up="2",
    ),
)
