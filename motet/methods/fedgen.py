"""FedGen (Zhu, Hong and Zhou 2021): a generator of features, trained at the server, shows every client all classes."""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.functional import cross_entropy, kl_div, log_softmax, one_hot

from motet.config.section import tried
from motet.errors import MotetError
from motet.messages.message import Message, number, tensor
from motet.messages.replies import Rule
from motet.methods.base import Forward, MethodEntry, Part, Serving, Training
from motet.methods.base.part import Acts
from motet.nets import Net
from motet.training.flat_weights import Layout, matches
from motet.training.randomness import seeded

# -------- The generator as a flat vector, and the clients' heads that judge its features


BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8  # Adam's


class Generator:
    """z = G(ε, y): linear, BatchNorm, ReLU, linear. It holds no weights: they are passed in at each call."""

    def __init__(self, noise: int, hidden: int, shape: Sequence[int], classes: int):
        self.noise, self.hidden, self.shape, self.classes = noise, hidden, torch.Size(shape), classes
        with torch.device("meta"):
            self.form = self._module()
        self.layout = Layout(self.form)

    def _module(self) -> nn.Module:
        # no first bias: BatchNorm cancels it, and Adam would turn the remaining rounding errors into whole steps
        first = nn.Linear(self.noise + self.classes, self.hidden, bias=False)
        last = nn.Linear(self.hidden, self.shape.numel())
        return nn.Sequential(OrderedDict(first=first, norm=nn.BatchNorm1d(self.hidden), relu=nn.ReLU(), last=last))

    def fresh(self) -> Tensor:
        """Return initial weights, drawn by torch's global generator."""
        return self.layout.flatten(self._module())

    def draw(self, p: Tensor, count: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """ε ~ N(0, I) and y ~ p"""
        y = torch.multinomial(p, count, replacement=True, generator=rng)
        return torch.randn(count, self.noise, generator=rng), y

    def features(self, G: Tensor, eps: Tensor, y: Tensor) -> Tensor:
        """G(ε, y) in eval mode, with the statistics of its training"""
        with torch.no_grad():
            return self._made(self.form.eval(), self.layout.named(G), eps, y)

    def step(self, G: Tensor, eps: Tensor, y: Tensor, loss: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        """Return the gradient of loss(G(ε, y)) in G, and G with updated statistics, as new vectors."""
        renewed, leaf = G.clone(), G.clone().requires_grad_()
        named = {name: at.view(renewed if at.is_buffer else leaf) for name, at in self.layout.places.items()}
        (gradient,) = torch.autograd.grad(loss(self._made(self.form.train(), named, eps, y)), leaf)
        return gradient, renewed

    def _made(self, form: nn.Module, named: Mapping[str, Tensor], eps: Tensor, y: Tensor) -> Tensor:
        z: Tensor = functional_call(form, dict(named), torch.cat([eps, one_hot(y, self.classes).to(eps)], 1))
        return z.view(-1, *self.shape)


class Adam:
    """w ← w − η·m̂/(√v̂ + ε) on a flat vector, from stored moments m and v."""

    def __init__(self, lr: float, m: Tensor, v: Tensor, t: int):
        self.lr, self.m, self.v, self.t = lr, m, v, t

    def __call__(self, w: Tensor, gradient: Tensor) -> Tensor:
        """Return the next w."""
        self.t += 1
        self.m = torch.lerp(gradient, self.m, BETA1)
        self.v = torch.lerp(gradient.square(), self.v, BETA2)
        root = (self.v / (1 - BETA2**self.t)).sqrt() + EPSILON
        return w - self.lr / (1 - BETA1**self.t) * self.m / root


def heads(net: Net, layout: Layout, replies: Mapping[int, Message]) -> Callable[[Tensor], Tensor]:
    """Return a function from features to the logits of every client's head, [client, sample, class]."""
    stages = net.stage_names[net.stage_names.index(net.split) :]
    head = nn.Sequential(OrderedDict((name, getattr(net, name)) for name in stages)).eval()
    names = [name for name, _ in (*head.named_parameters(), *head.named_buffers())]
    named = {name: torch.stack([layout.places[name].view(tensor(r, "w")) for r in replies.values()]) for name in names}
    judge = vmap(lambda of_one, z: functional_call(head, of_one, z), (0, None))
    return lambda z: judge(named, z)


def alike(eps: Tensor, z: Tensor) -> Tensor:
    """exp(−mean_ij ‖ε_i − ε_j‖²/D_ε · ‖z_i − z_j‖₁/D_z): near 1 where different ε make the same z"""
    z = z.flatten(1)
    apart = (eps[:, None] - eps).square().mean(2) * (z[:, None] - z).abs().mean(2)
    return torch.exp(-apart.mean())


# -------- The part


class FedGen(Part):
    """Client: f_i(x) + α·E[CE(h(G(ε, y)), y)] (Eq. 5);  server: min over G of E[CE(Σ_i s_iy·h_i(G(ε, y)), y)] + η·D

    y is drawn by the cohort's class counts and ε from N(0, I); s_iy is client i's share of the cohort's samples of
    class y, and D keeps features of different ε apart. G makes features as the generic model's head sees them. It goes
    to the clients once it is trained: in the first round there is none.

    The released code loses the label weights (each client's mean loss meets its mean weight), draws ε uniformly, and
    has `ensemble=losses, alpha=10, beta=10, decay=0.98`. The paper's Eq. 4 as printed is `ensemble=mean`.
    """

    acts: ClassVar[Acts] = "loss"
    needs_classes: ClassVar[bool] = True
    serves_adaptation: ClassVar[bool] = False
    serves_prediction: ClassVar[bool] = False
    tells: ClassVar[frozenset[str]] = frozenset({"class counts"})
    uploads: ClassVar[Mapping[str, Rule]] = {"fedgen.counts": "each", "w": "each"}

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
    lr: float = Field(
        0.0005, gt=0, description="learning rate of G, by Adam", json_schema_extra=tried(0.0001, 0.0005, 0.005)
    )

    def start(self, s: Serving) -> None:
        """G at random, Adam's m = v = 0"""
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
        """Return a generator with these options."""
        return Generator(self.noise, self.hidden, shape, classes)

    def broadcast(self, s: Serving, client_id: int, message: Message) -> None:
        """Send G and p, once G is trained."""
        if "fedgen.p" in s.state:
            message["fedgen.G"], message["fedgen.p"] = s.state["fedgen.G"], s.state["fedgen.p"]

    def before(self, t: Training, message: Message) -> None:
        """Store G and p as received."""
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
        """Send N_i, as `tells` declares."""
        reply["fedgen.counts"] = t.client.counts

    def aggregate(self, s: Serving, replies: Mapping[int, Message]) -> None:
        """p from the cohort's counts; then train G further"""
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
        """CE of the clients' heads together on z, + η·D"""
        said = judge(z)
        shares = (counts / counts.sum(0).clamp_min(1)).to(said)[:, y]
        if self.ensemble == "losses":
            each = cross_entropy(said.flatten(0, 1), y.repeat(len(said)), reduction="none").view_as(shares)
            judged = (shares * each).sum(0).mean()
        else:
            together = said.mean(0) if self.ensemble == "mean" else (shares[:, :, None] * said).sum(0)
            judged = cross_entropy(together, y)
        return judged + self.diversity * alike(eps, z)


ENTRY = MethodEntry(
    "fedgen",
    "generated features show every client all classes",
    "Zhu, Hong and Zhou 2021",
    part=FedGen,
    down="1 + generator",
)
