"""DBE (Zhang et al. 2023): each client keeps the bias of its features, and the mean of features is pulled to a
consensus.

PRBM is the personal half, MR the shared one; DBE is both, and each has its own name in a sum.
"""

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from motet.config.section import tried
from motet.messages.message import Message, tensor
from motet.messages.replies import Rule
from motet.methods.base import Forward, Learned, LearnedFigure, MethodEntry, Part, Serving, Training, average
from motet.methods.base.part import Acts
from motet.methods.base.plane import in_a_plane
from motet.nets import Net
from motet.training.client import Client

# -------- DBE (Zhang et al. 2023)


PASS_BATCH = 1000
DRAWN_CLIENTS, DRAWN_SAMPLES = 8, 10  # how many clients, and samples of each, a figure of features shows


class PRBM(Part):
    """z = z^g + z̄^p (Eq. 4): a trainable translation p of the features, the client's own.

    p has the full shape of the features at the split, starts at zero and learns by the local rule as a weight like
    any other. In the paper's setting that is plain SGD with the same learning rate; with momentum, p has it too.
    """

    acts: ClassVar[Acts] = "features"

    def extend(self, net: Net) -> None:
        """p = 0"""
        p = torch.zeros(net.feature_shape(), device=next(net.parameters()).device)
        net.register_parameter("prbm", nn.Parameter(p))

    def private(self, net: Net) -> tuple[str, ...]:
        """p never travels."""
        return ("prbm",)

    def features(self, net: Net, z: Tensor) -> Tensor:
        """z = z^g + p"""
        return z + net.get_parameter("prbm")

    def constants(self, net: Net, note: object) -> Mapping[str, Tensor]:
        """p"""
        return {"shift": net.get_parameter("prbm")}

    def client_snapshot(self, client: Client, net: Net) -> Message:
        """z^g of a few of the client's samples, and p"""
        x, _ = next(client.data.train.all_batches(DRAWN_SAMPLES))
        p = net.get_parameter("prbm").detach()
        with torch.no_grad():
            return {"prbm.z": net.body(x.to(p.device)).flatten(1), "prbm.p": p.flatten()}

    def figures_learned(self, learned: Learned) -> list[LearnedFigure]:
        """z^g and z^g + p of several clients, by t-SNE in one plane"""
        drawn = dict([*learned.snapshots.items()][:DRAWN_CLIENTS])
        if not drawn:
            return []
        raw = [tensor(snapshot, "prbm.z") for snapshot in drawn.values()]
        moved = [z + tensor(snapshot, "prbm.p") for z, snapshot in zip(raw, drawn.values(), strict=True)]
        without, with_p = in_a_plane(torch.cat([*raw, *moved]), learned.seed).chunk(2)
        group = [g for g, z in enumerate(raw) for _ in z]
        names = [learned.names[i] for i in drawn]
        return [
            LearnedFigure.points(
                "dbe-features-without-p",
                "DBE: features of clients' test samples before p (t-SNE)",
                "Each colour is a client: the more the colours mix, the less of a client is left in the features.",
                without,
                group,
                names,
            ),
            LearnedFigure.points(
                "dbe-features-with-p",
                "DBE: the same samples with each client's p (t-SNE)",
                "The same plane: where p moved a client's samples, its bias is kept in p and not in the features.",
                with_p,
                group,
                names,
            ),
        ]


class RunningMean(Part):
    """The mean of z^g over batches, inside one local training (Eq. 9)."""

    acts: ClassVar[Acts] = "features"

    mu: float = Field(
        1.0,
        ge=0,
        le=1,
        description="μ, weight of the newest batch in the running mean of the features",
        json_schema_extra=tried(0.1, 0.5, 1.0),
    )

    def before(self, t: Training, message: Message) -> None:
        """m = 0"""
        t["mr.m"] = torch.zeros(())

    def objective(self, t: Training, out: Forward, y: Tensor, loss: Tensor) -> Tensor:
        """m ← (1−μ) sg(m) + μ·mean z^g, of the features before PRBM"""
        self.track(t, out)
        return loss

    def track(self, t: Training, out: Forward) -> Tensor:
        """Return the new m, with a gradient through this batch; the m that is stored has no gradient."""
        newest = out.raw.mean(0)
        m = newest if self.mu == 1 else torch.lerp(t["mr.m"], newest, self.mu)
        t["mr.m"] = m.detach()
        return m


class InitialEpoch(RunningMean):
    """The epoch before the first round is trained without DBE (Algorithm 1, line 2): p stays zero."""

    def correct(self, t: Training) -> None:
        """No step on p"""
        if "prbm" in t.layout.places:
            t.layout.places["prbm"].view(t.g).zero_()


class MR(RunningMean):
    """L += κ·(1/K) Σ_k ½(m_k − z̄^g_k)² (Eq. 7, with m for the mean over all data: Eq. 9)."""

    serves_prediction: ClassVar[bool] = False
    tells: ClassVar[frozenset[str]] = frozenset({"mean features"})
    uploads: ClassVar[Mapping[str, Rule]] = {"mr.mean": "mean"}

    kappa: float = Field(
        50.0,
        ge=0,
        description="κ, strength of the mean regularization (the paper: 50, ResNet-18 1)",
        json_schema_extra=tried(0.0, 0.001, 0.01, 0.1, 1.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0),
    )
    mean_init: Literal["full_pass", "ema_last"] = Field(
        "full_pass",
        description="a client's mean: one pass over its data after the initial epoch, or the epoch's running mean",
    )
    noise_s: float = Field(0.0, ge=0, description="s, deviation of the noise on the mean that a client tells")
    noise_q: float = Field(0.0, ge=0, le=1, description="q, share of that mean that is withheld")

    # ------------------------------------------------------------ the consensus z̄^g, once before the first round

    def preparation(self) -> Part:
        """Return the part that acts in one epoch of plain training."""
        return InitialEpoch(mu=self.mu)

    def prepare(self, t: Training, reply: Message) -> None:
        """(1−q)·z̄_i^g + N(0, s²I), the client's mean as it may leave the client"""
        mean = t["mr.m"] if self.mean_init == "ema_last" else self.mean_over_data(t)
        noise = torch.randn(mean.shape, generator=t.client.rng("mr-noise"))
        reply["mr.mean"] = (1 - self.noise_q) * mean + self.noise_s * noise.to(mean.device)

    def mean_over_data(self, t: Training) -> Tensor:
        """z̄_i^g = (1/n_i) Σ_j f(x_ij; θ^f) with the extractor of the initial epoch"""
        t.net.eval()
        total = torch.zeros((), device=t.w.device)
        with torch.no_grad():
            for x, _ in t.client.data.train.all_batches(PASS_BATCH):
                total = total + t.net.body(x.to(t.w.device)).sum(0)
        return total / t.client.samples

    def prepared(self, s: Serving, replies: Mapping[int, Message]) -> None:
        """z̄^g = Σ (n_i/n) z̄_i^g (Algorithm 1, line 3), which no client has received yet"""
        s.state["mr.mean"] = average(replies, "mr.mean")
        s.state["mr.told"] = torch.zeros(0, dtype=torch.int64)

    # ------------------------------------------------------------ each round

    def broadcast(self, s: Serving, client_id: int, message: Message) -> None:
        """Send z̄^g, which never changes, to a client until it has replied once; after that a round costs what FedAvg's
        does."""
        if "mr.mean" in s.state and not (tensor(s.state, "mr.told") == client_id).any():
            message["mr.mean"] = s.state["mr.mean"]

    def before(self, t: Training, message: Message) -> None:
        """m = 0, and z̄^g as just received or as kept"""
        super().before(t, message)
        if "mr.mean" in message:
            t.client.private["mr.mean"] = message["mr.mean"]
        t["mr.mean"] = tensor(t.client.private, "mr.mean")

    def objective(self, t: Training, out: Forward, y: Tensor, loss: Tensor) -> Tensor:
        """+ κ·(1/K) Σ_k ½(m_k − z̄^g_k)²"""
        return torch.add(loss, mse_loss(self.track(t, out), t["mr.mean"]), alpha=self.kappa / 2)

    def aggregate(self, s: Serving, replies: Mapping[int, Message]) -> None:
        """Remember which clients replied: they keep z̄^g."""
        s.state["mr.told"] = torch.tensor(sorted({*tensor(s.state, "mr.told").tolist(), *replies}))


class DBE(PRBM, MR):
    """L = CE(h(f(x; θ^f) + p; θ^h), y) + κ·MR(m, z̄^g) (Eq. 7)"""


ENTRIES = (
    MethodEntry(
        "prbm",
        "a private translation of the features",
        "DBE's first half, Zhang et al. 2023",
        part=PRBM,
        stays="its translation p",
    ),
    MethodEntry("mr", "hold the features' mean to everybody's", "DBE's second half, Zhang et al. 2023", part=MR),
    MethodEntry(
        "dbe",
        "keep a client's bias of the representation at home",
        "Zhang et al. 2023",
        part=DBE,
        stays="its translation p",
    ),
)
