"""FedGen (Zhu, Hong and Zhou 2021): a generator of features, trained at the server, shows every client all classes."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import cross_entropy, kl_div, log_softmax

from motet.contract import Entry, Forward, Part, Serving, Training
from motet.contract.method import Rule
from motet.contract.part import Acts
from motet.errors import MotetError
from motet.message import Message, number, tensor
from motet.methods.components.generator import Adam, Generator, alike, heads
from motet.rng import seeded
from motet.weights import matches


class FedGen(Part):
    """Client: f_i(x) + α·E[CE(h(G(ε, y)), y)] (Eq. 5);  server: min over G of E[CE(Σ_i s_iy·h_i(G(ε, y)), y)] + η·D

    y is drawn by the cohort's class counts and ε from N(0, I); s_iy is client i's share of the cohort's samples of
    class y, and D keeps features of different ε apart. G makes features as the generic model's head sees them. It goes
    to the clients once it is trained: in the first round there is none.

    The released code loses the label weights (each client's mean loss meets its mean weight), draws ε uniformly, and
    has `ensemble=losses, alpha=10, beta=10, decay=0.98`. The paper's Eq. 4 as printed is `ensemble=mean`.
    """

    acts: ClassVar[Acts] = "loss"
    serves_adaptation: ClassVar[bool] = False
    serves_prediction: ClassVar[bool] = False
    tells: ClassVar[frozenset[str]] = frozenset({"class counts"})
    uploads: ClassVar[Mapping[str, Rule]] = {"fedgen.counts": "each"}

    alpha: float = Field(1.0, ge=0, description="α, weight of the generated features in a client's loss")
    beta: float = Field(0.0, ge=0, description="weight of the KL from h(G(ε, y)) to h(x) of the same y")
    decay: float = Field(1.0, gt=0, le=1, description="factor on both weights per round")
    ensemble: Literal["logits", "mean", "losses"] = Field(
        "logits", description="the heads' logits by shares of the class, their plain mean, or their losses by shares"
    )
    diversity: float = Field(1.0, ge=0, description="η, weight of the diversity of features")
    noise: int = Field(512, ge=1, description="numbers in ε")
    hidden: int = Field(512, ge=1, description="hidden units of G")
    steps: int = Field(1000, ge=1, description="steps of G per round; fewer for a quick run on a CPU")
    batch: int = Field(32, ge=2, description="features per step of G")
    lr: float = Field(0.005, gt=0, description="learning rate of G, by Adam")

    def start(self, s: Serving) -> None:
        """G at random, Adam at rest"""
        kept = s.layout.private.start
        for name, place in s.layout.places.items():
            if place.where.start >= kept and matches(name, s.net.head_names()):
                raise MotetError(
                    "fedgen learns from the clients' heads, which stay private here; accepted: shared heads"
                )
        with seeded(s.facts.seed, "fedgen"):
            G = self.generator(s.net.feature_shape(), s.facts.classes).fresh()
        s.state.update({"fedgen.G": G, "fedgen.m": torch.zeros_like(G), "fedgen.v": torch.zeros_like(G), "fedgen.t": 0})

    def generator(self, shape: tuple[int, ...], classes: int) -> Generator:
        """Of these options."""
        return Generator(self.noise, self.hidden, shape, classes)

    def broadcast(self, s: Serving, client_id: int, message: Message) -> None:
        """G and p, once there is something to learn from them"""
        if "fedgen.p" in s.state:
            message["fedgen.G"], message["fedgen.p"] = s.state["fedgen.G"], s.state["fedgen.p"]

    def before(self, t: Training, message: Message) -> None:
        """G and p as received"""
        if "fedgen.G" in message:
            t["fedgen.G"], t["fedgen.p"] = tensor(message, "fedgen.G"), tensor(message, "fedgen.p").cpu()
            t["fedgen.drawn"] = torch.zeros(1, dtype=torch.int64)

    def objective(self, t: Training, out: Forward, y: Tensor, loss: Tensor) -> Tensor:
        """+ α·CE(h(G(ε, y')), y') with y' drawn, + β·KL(sg h(G(ε', y)) ‖ h(x)) with the batch's y"""
        if "fedgen.G" not in t.values:
            return loss
        t["fedgen.drawn"] = t["fedgen.drawn"] + 1
        generator = self.generator(tuple(out.raw.shape[1:]), t.client.classes)
        rng = t.client.rng(f"fedgen/{t['fedgen.drawn'].item()}")
        weight = self.decay ** (t.client.round - 1)
        (eps, of), (other, _) = (generator.draw(t["fedgen.p"], len(y), rng) for _ in range(2))
        of = of.to(y.device)
        z = generator.features(t["fedgen.G"], eps.to(t.w.device), of)
        loss = loss + weight * self.alpha * cross_entropy(t.net.head(z), of)
        if self.beta:
            with torch.no_grad():
                target = log_softmax(t.net.head(generator.features(t["fedgen.G"], other.to(t.w.device), y)), 1)
            away = kl_div(log_softmax(out.logits, 1), target, reduction="batchmean", log_target=True)
            loss = loss + weight * self.beta * away
        return loss

    def after(self, t: Training, reply: Message) -> None:
        """N_i, as declared"""
        reply["fedgen.counts"] = t.client.counts

    def aggregate(self, s: Serving, replies: Mapping[int, Message]) -> None:
        """p from the cohort's counts; G goes on from where it was"""
        counts = torch.stack([tensor(reply, "fedgen.counts") for reply in replies.values()])
        G, judge, rng = tensor(s.state, "fedgen.G"), heads(s.net, s.layout, replies), s.rng("fedgen")
        generator = self.generator(s.net.feature_shape(), s.facts.classes)
        m, v = tensor(s.state, "fedgen.m"), tensor(s.state, "fedgen.v")
        adam, p = Adam(self.lr, m, v, int(number(s.state, "fedgen.t"))), (counts.sum(0) / counts.sum()).to(G)
        for _ in range(self.steps):
            eps, y = generator.draw(p, self.batch, rng)
            gradient, renewed = generator.step(G, eps, y, partial(self.loss, judge, y, counts, eps))
            G = adam(renewed, gradient)
        s.state.update({"fedgen.G": G, "fedgen.m": adam.m, "fedgen.v": adam.v, "fedgen.t": adam.t, "fedgen.p": p})

    def loss(self, judge: Callable[[Tensor], Tensor], y: Tensor, counts: Tensor, eps: Tensor, z: Tensor) -> Tensor:
        """CE of what the clients' heads say together of z, + η·D"""
        said = judge(z)
        shares = (counts / counts.sum(0).clamp_min(1)).to(said)[:, y]
        if self.ensemble == "losses":
            each = cross_entropy(said.flatten(0, 1), y.repeat(len(said)), reduction="none").view_as(shares)
            judged = (shares * each).sum(0).mean()
        else:
            together = said.mean(0) if self.ensemble == "mean" else (shares[:, :, None] * said).sum(0)
            judged = cross_entropy(together, y)
        return judged + self.diversity * alike(eps, z)


ENTRY = Entry(
    "fedgen",
    "generated features show every client all classes",
    "Zhu, Hong and Zhou 2021",
    part=FedGen,
    down="1 + generator",
)
