"""DBE (Zhang et al. 2023): each client keeps the bias of its features, and the mean of features is pulled to a
consensus.

PRBM is the personal half, MR the shared one; DBE is both, and each has its own name in a sum.
"""

import math
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from motet.config.section import tried
from motet.errors import Diverged
from motet.messages.message import Message, number, tensor
from motet.messages.replies import Rule
from motet.methods.base import Forward, Learned, LearnedFigure, MethodEntry, Part, Serving, Training, average
from motet.methods.base.local_steps import learn_in_phases
from motet.methods.base.method import Facts
from motet.methods.base.part import Acts
from motet.methods.base.plane import in_a_plane
from motet.nets import Net
from motet.training.client import Client
from motet.training.randomness import generator

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

    mu: Annotated[float, Field(ge=0, le=1)] | Literal["auto"] = Field(
        "auto",
        description="μ, weight of the newest batch in the running mean of the features; auto: 0.1 for nets with "
        "BatchNorm, else 1",
        json_schema_extra=tried("auto", 0.1, 0.5, 1.0),
    )

    @property
    def newest_share(self) -> float:
        """μ as a number"""
        assert self.mu != "auto", "settled when the method is built"
        return self.mu

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
        mu = self.newest_share
        m = newest if mu == 1 else torch.lerp(t["mr.m"], newest, mu)
        t["mr.m"] = m.detach()
        return m


class InitialEpoch(RunningMean):
    """The epoch before the first round is trained without DBE (Algorithm 1, line 2): p stays zero."""

    def before(self, t: Training, message: Message) -> None:
        """m = 0; remember whether the server asks this client for the magnitudes of both losses."""
        super().before(t, message)
        if "mr.measures" in message:
            t["mr.measures"] = torch.ones(())

    def correct(self, t: Training) -> None:
        """No step on p"""
        if "prbm" in t.layout.places:
            t.layout.places["prbm"].view(t.g).zero_()


OF_NETS: Mapping[str, tuple[float, float]] = {"cnn4": (50.0, 1.0), "resnet18": (1.0, 0.1), "fasttext": (0.1, 1.0)}
"""κ and μ that the paper has for its nets (appendix C.2)."""

MEASURING = 8  # how many clients measure the magnitudes of both losses, where κ is "auto"
LEARNED, MOST_EPOCHS = 0.1, 100  # they learn on until their loss is that share of its first value, for so many epochs
NO_MEASURE = 1.0  # κ where nobody could measure


def measuring(s: Serving) -> list[int]:
    """Return the clients that measure both losses: some of all, the same for every call."""
    order = torch.randperm(s.facts.clients, generator=generator(s.facts.seed, "mr-kappa"))
    return [s.facts.ids[i] for i in order[:MEASURING].tolist()]


def magnitudes(t: Training, mean: Tensor) -> tuple[float, float]:
    """Return the client's loss, and ½(m − z̄_i^g)² as a mean over batches and features, once it has learned.

    The epoch before the first round may have three steps, after which both are those of a random net: the loss near
    its first value and all features near zero, a ratio of hundreds. So the client learns on alone until its loss is a
    tenth of its first; these weights are thrown away. It gives (0, 0) if that leaves the finite numbers.
    """
    samples, device, before = t.client.data.train, t.w.device, t.w.clone()

    def now() -> tuple[float, float]:
        loss, mse, seen = 0.0, 0.0, 0
        with torch.no_grad():
            for x, y in samples.all_batches(t.client.local.batch):
                z = t.net.body(x.to(device))
                loss += len(y) * float(t.net.training_loss(t.net.head(z), y.to(device)))
                mse += len(y) * float(mse_loss(z.mean(0), mean)) / 2
                seen += len(y)
        return loss / seen, mse / seen

    with t.at(t.start):
        first, _ = now()
    t.net.eval()
    found = now()
    try:
        for _ in range(MOST_EPOCHS):
            if found[0] <= LEARNED * first:
                break
            t.bind()
            learn_in_phases(t, samples, t.backward)
            t.rest()
            found = now()
    except Diverged:
        found = (0.0, 0.0)
    t.w.copy_(before)
    return found if all(map(math.isfinite, found)) else (0.0, 0.0)


def aligned(replies: Mapping[int, Message], consensus: Tensor) -> float:
    """κ = Σ n_i loss_i / Σ n_i mse_i over the clients that measured, so that both terms of the loss weigh alike.

    To what a client measured against its own mean comes that mean's distance from the consensus.
    """
    told = [reply for reply in replies.values() if number(reply, "mr.loss") > 0]
    loss = sum(number(reply, "n") * number(reply, "mr.loss") for reply in told)
    apart = [float(mse_loss(tensor(reply, "mr.mean"), consensus)) / 2 for reply in told]
    mse = sum(number(reply, "n") * (number(reply, "mr.mse") + away) for reply, away in zip(told, apart, strict=True))
    return loss / mse if mse > 0 else NO_MEASURE


class MR(RunningMean):
    """L += κ·(1/K) Σ_k ½(m_k − z̄^g_k)² (Eq. 7, with m for the mean over all data: Eq. 9)."""

    serves_prediction: ClassVar[bool] = False
    tells: ClassVar[frozenset[str]] = frozenset({"mean features", "magnitudes of its losses"})
    uploads: ClassVar[Mapping[str, Rule]] = {"mr.mean": "mean", "mr.loss": "each", "mr.mse": "each"}

    kappa: Annotated[float, Field(ge=0)] | Literal["auto"] = Field(
        "auto",
        description="κ, strength of the mean regularization; auto: the paper's for its nets (cnn4 50, nets with "
        "BatchNorm 1, fasttext 0.1), else the ratio of both losses, measured before the first round",
        json_schema_extra=tried("auto", 0.0, 0.001, 0.01, 0.1, 1.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0),
    )
    mean_init: Literal["full_pass", "ema_last"] = Field(
        "full_pass",
        description="a client's mean: one pass over its data after the initial epoch, or the epoch's running mean",
    )
    noise_s: float = Field(0.0, ge=0, description="s, deviation of the noise on the mean that a client tells")
    noise_q: float = Field(0.0, ge=0, le=1, description="q, share of that mean that is withheld")

    def settled(self, net: Net, facts: Facts) -> Part:
        """Return the part with the κ and μ that the paper has for this net (appendix C.2), where they are "auto"."""
        papers = OF_NETS.get(net.listed_as) or ((1.0, 0.1) if net.normalizes_batches else (self.kappa, 1.0))
        kappa, mu = (paper if own == "auto" else own for own, paper in zip((self.kappa, self.mu), papers, strict=True))
        return self.model_copy(update={"kappa": kappa, "mu": mu})

    # ------------------------------------------------------------ the consensus z̄^g, once before the first round

    def preparation(self) -> Part:
        """Return the part that acts in one epoch of plain training."""
        return InitialEpoch(mu=self.mu)

    def prepare(self, t: Training, reply: Message) -> None:
        """(1−q)·z̄_i^g + N(0, s²I), the client's mean as it may leave the client"""
        mean = t["mr.m"] if self.mean_init == "ema_last" else self.mean_over_data(t)
        noise = torch.randn(mean.shape, generator=t.client.rng("mr-noise"))
        reply["mr.mean"] = (1 - self.noise_q) * mean + self.noise_s * noise.to(mean.device)
        if self.kappa == "auto":
            reply["mr.loss"], reply["mr.mse"] = magnitudes(t, mean) if "mr.measures" in t.values else (0.0, 0.0)

    def mean_over_data(self, t: Training) -> Tensor:
        """z̄_i^g = (1/n_i) Σ_j f(x_ij; θ^f) with the extractor of the initial epoch"""
        t.net.eval()
        total = torch.zeros((), device=t.w.device)
        with torch.no_grad():
            for x, _ in t.client.data.train.all_batches(PASS_BATCH):
                total = total + t.net.body(x.to(t.w.device)).sum(0)
        return total / t.client.samples

    def prepared(self, s: Serving, replies: Mapping[int, Message]) -> None:
        """z̄^g = Σ (n_i/n) z̄_i^g (Algorithm 1, line 3), which no client has received yet; κ where it is measured"""
        s.state["mr.mean"] = average(replies, "mr.mean")
        s.state["mr.told"] = torch.zeros(0, dtype=torch.int64)
        if self.kappa == "auto":
            s.state["mr.kappa"] = aligned(replies, tensor(s.state, "mr.mean"))

    def measured(self, s: Serving) -> dict[str, float]:
        """κ where it was measured"""
        return {"kappa": number(s.state, "mr.kappa")} if "mr.kappa" in s.state else {}

    def diagnostics(self, s: Serving) -> dict[str, float]:
        """κ where it was measured"""
        return {f"mr_{name}": value for name, value in self.measured(s).items()}

    # ------------------------------------------------------------ each round

    def broadcast(self, s: Serving, client_id: int, message: Message) -> None:
        """Send z̄^g, which never changes, to a client until it has replied once; after that a round costs what FedAvg's
        does. A measured κ goes with it. Before that, ask some clients for the magnitudes of both losses."""
        if "mr.mean" not in s.state:
            if self.kappa == "auto" and client_id in measuring(s):
                message["mr.measures"] = True
        elif not (tensor(s.state, "mr.told") == client_id).any():
            message |= {name: s.state[name] for name in ("mr.mean", "mr.kappa") if name in s.state}

    def before(self, t: Training, message: Message) -> None:
        """m = 0, and z̄^g as just received or as kept"""
        super().before(t, message)
        for name in ("mr.mean", "mr.kappa"):
            if name in message:
                t.client.private[name] = message[name]
        t["mr.mean"] = tensor(t.client.private, "mr.mean")
        kappa = number(t.client.private, "mr.kappa") if self.kappa == "auto" else self.kappa
        t["mr.kappa"] = torch.tensor(kappa, dtype=torch.float64)

    def objective(self, t: Training, out: Forward, y: Tensor, loss: Tensor) -> Tensor:
        """+ κ·(1/K) Σ_k ½(m_k − z̄^g_k)²"""
        return torch.add(loss, mse_loss(self.track(t, out), t["mr.mean"]), alpha=t["mr.kappa"].item() / 2)

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
