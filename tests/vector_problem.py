"""The tiny problem of tests/vectors, and the only place where its tests meet the contract of methods.

A test says which method, which cohorts and which figures; how a method is built and run, and under which name a state
holds a figure, is said here alone.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from inputs import input_of
from torch import Tensor, nn

from motet.config.section import checked
from motet.config.sections import AdaptSettings, LocalSettings
from motet.data import ClientData, Samples, VectorPrepare
from motet.errors import Diverged
from motet.messages.message import Message, State
from motet.methods import build_method
from motet.methods.averaging import Averaging
from motet.methods.base import Facts, Training
from motet.nets import Net
from motet.training.client import Client, RunContext
from motet.training.flat_weights import Layout

VECTORS = Path(__file__).parent / "vectors"
TOLERANCE = 1e-10
VISIBLE = 1e-3  # a method's own term moves its result by at least this
LOCAL = {"epochs": 1, "batch": 6, "lr_decay": 1.0, "momentum": 0.0, "weight_decay": 0.0}

# Where a figure is found: in the server's state, or for one client in what it was sent, what it answered, what it
# keeps, or what its last training knew at its end.
FIGURES = {
    "w": ("server", "w"),
    "theta": ("reply", "w"),
    "trained": ("training", "w"),
    "scaffold c": ("server", "scaffold.c"),
    "scaffold c_i": ("private", "scaffold.c_i"),
    "feddyn h": ("server", "feddyn.h"),
    "feddyn h_i": ("private", "feddyn.h_i"),
    "pgfed alpha": ("server", "pgfed.A"),
    "pgfed g_bar": ("server", "pgfed.g_bar"),
    "pgfed g_tilde": ("training", "pgfed.g"),
    "pgfed G": ("reply", "pgfed.G"),
    "pgfed c": ("reply", "pgfed.c"),
    "dbe z_bar": ("server", "mr.mean"),
    "dbe z_bar_i": ("reply", "mr.mean"),
    "dbe p": ("private", "private"),
    "dbe m": ("training", "mr.m"),
    "superfed w_l": ("private", "superfed.w_l"),
    "ditto v": ("private", "ditto.v"),
    "apfl v": ("private", "apfl.v"),
    "apfl alpha": ("private", "apfl.alpha"),
    "pfedme theta": ("private", "pfedme.theta"),
    "fedgen G": ("server", "fedgen.G"),
    "fedgen p": ("server", "fedgen.p"),
    "meta gamma": ("private", "meta-bsm.gamma"),
    "meta zeta": ("private", "meta-bsm.zeta"),
}


def vectors(name: str) -> dict[str, Any]:
    """The arrays of one file as tensors, its scalars as plain numbers, its words as they are."""
    with np.load(VECTORS / f"{name}.npz") as file:
        found = {key: file[key] for key in file.files}
    return {k: a.item() if not a.ndim else a if a.dtype.kind == "U" else torch.from_numpy(a) for k, a in found.items()}


@contextmanager
def exactly() -> Iterator[None]:
    """Float64 everywhere, and every shuffle leaves the order as it is."""
    dtype, shuffle = torch.get_default_dtype(), torch.randperm
    torch.set_default_dtype(torch.float64)
    torch.randperm = lambda n, **how: torch.arange(n)  # type: ignore[assignment]
    try:
        yield
    finally:
        torch.set_default_dtype(dtype)
        torch.randperm = shuffle


@contextmanager
def drawing(draws: Iterable[Tensor]) -> Iterator[None]:
    """Each call of torch.rand gets the next of these."""
    rand, given = torch.rand, iter(draws)
    torch.rand = lambda *size, **how: next(given)  # type: ignore[assignment]
    try:
        yield
    finally:
        torch.rand = rand


# ------------------------------------------------------------ nets and data


def tiny_net(w: Tensor, bias: bool = True) -> Net:
    """6 → 5 → 4 → 3 with ReLU between; the features are what fc3 sees."""

    def hidden(inputs: int, outputs: int) -> nn.Sequential:
        linear = nn.Linear(inputs, outputs, bias=bias)
        return nn.Sequential(OrderedDict(flatten=nn.Flatten(), linear=linear, relu=nn.ReLU()))

    return at(w, Net(OrderedDict(fc1=hidden(6, 5), fc2=hidden(5, 4), fc3=nn.Linear(4, 3, bias=bias)), input_of(6)))


def linear_net(inputs: int, classes: int, w: Tensor, bias: bool = True) -> Net:
    """One linear layer, behind a stage that does nothing: a net has two stages at least."""
    stages: OrderedDict[str, nn.Module] = OrderedDict(flatten=nn.Flatten(), fc=nn.Linear(inputs, classes, bias=bias))
    return at(w, Net(stages, input_of(inputs)))


def at(w: Tensor, net: Net) -> Net:
    """The net at these flat weights."""
    Layout(net).bind(net, w.clone())
    return net


class AsStored(VectorPrepare):
    """Samples go into the net as they are, in float64."""

    def __call__(self, stored: Tensor) -> Tensor:
        return stored


def samples(x: Tensor, y: Tensor) -> Samples:
    return Samples(x, y, AsStored(tuple(x.shape[1:])))


def tiny_data(sizes: Sequence[int] = (24, 18, 30, 12)) -> list[Samples]:
    """The first samples of each of the four clients."""
    found = vectors("problem")
    return [samples(found[f"x_{i}"][:n], found[f"y_{i}"][:n]) for i, n in enumerate(sizes)]


# ------------------------------------------------------------ the contract


class Rounds:
    """A method and its clients, round after round, with no engine between them."""

    def __init__(
        self,
        method: str,
        net: Net,
        data: Sequence[Samples],
        rounds: int = 1,
        cohort: int | None = None,
        classes: int = 3,
        counts: Tensor | None = None,
        shared: Samples | None = None,
        together: bool = False,
        facts: Facts | None = None,
        **local: Any,
    ):
        """`counts` are told in the place of a client's own; `together` trains a cohort as one computation."""
        self.data, self.counts, self.shared, self.together = data, counts, shared, together
        self.local = checked(LocalSettings, LOCAL | local, "local")
        self.ids, self.round, self.classes = range(len(data)), 0, classes
        known = facts or Facts(tuple(self.ids), cohort or len(data), rounds, classes)
        self.method = build_method(method, net, known)
        self.server = self.method.start()
        self.sent: dict[int, Message] = {}
        self.replies: dict[int, Message] = {}
        self.kept: dict[int, State] = {i: {} for i in self.ids}
        self.trainings: dict[int, dict[str, Tensor]] = {}
        if isinstance(self.method, Averaging):
            learn, end_round = self.method.learn, self.method.end_round
            self.method.learn = lambda t, data: (learn(t, data), self._note(t))[0]  # type: ignore[method-assign]
            self.method.end_round = lambda t: (self._note(t), end_round(t))[1]  # type: ignore[method-assign, func-returns-value]

    def _note(self, t: Training) -> None:
        """What a local training knew at its end."""
        self.trainings[t.client.id] = {**t.values, "w": t.w[t.layout.shared].clone()}

    def client(self, i: int) -> Client:
        nothing = self.data[i].part(0, 0)
        who = Client(
            ClientData(i, self.data[i], nothing, nothing),
            self.round,
            RunContext(self.classes, 0, self.local, AdaptSettings(), shared_data=self.shared),
            private=self.kept[i],
        )
        if self.counts is not None:
            who.counts = self.counts
        return who

    def prepare(self) -> None:
        """What happens before the first round."""
        assert self.method.prepares
        self.replies = {i: self.method.prepare(self.client(i), self.method.broadcast(self.server, i)) for i in self.ids}
        self.server = self.method.prepared(self.server, self.replies)

    def play(self, cohort: Iterable[int]) -> None:
        """One round of these clients."""
        self.round += 1
        self.server = {**self.server, "round": self.round}
        self.sent = {i: self.method.broadcast(self.server, i) for i in sorted(map(int, cohort))}
        clients = [self.client(i) for i in self.sent]
        if self.together:
            assert self.method.most_batched() >= len(clients) > 1
            answers = self.method.train_batched(clients, list(self.sent.values()))
        else:
            answers = [self.method.train(who, self.sent[who.id]) for who in clients]
        self.replies = {i: a for i, a in zip(self.sent, answers, strict=True) if not isinstance(a, Diverged)}
        assert len(self.replies) == len(clients)
        self.server = self.method.aggregate(self.server, self.replies)

    def receive(self, models: Sequence[Tensor], sizes: Sequence[int] | None = None, **more: Sequence[Any]) -> None:
        """A round whose clients answer with these models, as if they had trained; `more` are other fields by client."""
        self.round += 1
        self.replies = {
            i: {"w": w.clone(), "n": 1 if sizes is None else int(sizes[i]), **{k: v[i] for k, v in more.items()}}
            for i, w in enumerate(models)
        }
        self.server = self.method.aggregate(self.server, self.replies)

    def figure(self, name: str, i: int | None = None, default: Tensor | None = None) -> Tensor:
        """A figure of the server, or of client i; the default where it keeps none yet."""
        where, key = FIGURES[name]
        places = {"reply": self.replies, "private": self.kept, "training": self.trainings}
        state = self.server if where == "server" else places[where][i]  # type: ignore[index]
        return torch.as_tensor(state[key] if default is None else state.get(key, default))

    def put(self, name: str, value: Tensor, i: int | None = None) -> None:
        """Change what the server holds, or what client i keeps, before the next round."""
        where, key = FIGURES[name]
        assert where == "server" or (where == "private" and i is not None)
        (self.server if i is None else self.kept[i])[key] = value.clone()


def plain_sgd(w: Tensor, i: int, net: Net, data: Sequence[Samples], **local: Any) -> Tensor:
    """What FedAvg's client i makes of w."""
    run = Rounds("fedavg", net, data, **local)
    run.put("w", w)
    run.play([i])
    return run.figure("theta", i)


# ------------------------------------------------------------ comparing


def same(what: str, ours: Tensor, theirs: Tensor | float, tolerance: float = TOLERANCE) -> None:
    """Equal within the tolerance, and nothing of it NaN."""
    theirs = torch.as_tensor(theirs, dtype=torch.float64)
    assert ours.dtype == torch.float64 and ours.shape == theirs.shape, what
    assert ours.isfinite().all() and theirs.isfinite().all(), what
    away = float((ours.detach() - theirs).abs().max())
    assert away <= tolerance, f"{what} differs by {away:.3g}"


def differs(what: str, ours: Tensor, theirs: Tensor, least: float = VISIBLE) -> None:
    """Apart by more than chance."""
    away = float((ours - theirs).abs().max())
    assert away >= least, f"{what} differs by {away:.3g} only"


def cohorts(v: dict[str, Any]) -> Iterator[tuple[int, list[int]]]:
    """Number from zero and members of each round."""
    for t, there in enumerate(v["in_cohort"]):
        yield t, there.nonzero().flatten().tolist()
