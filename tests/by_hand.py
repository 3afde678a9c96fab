"""A few small clients, and local training by torch.optim.SGD: what methods are compared with, step by step."""

import copy
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import torch
from inputs import input_of
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from motet.config.section import checked
from motet.config.sections import AdaptSettings, LocalSettings
from motet.data import ClientData, Samples, VectorPrepare
from motet.messages.message import Message, State
from motet.methods import build_method
from motet.methods.base import Facts, Method
from motet.nets import Net
from motet.training.client import Client, RunContext
from motet.training.flat_weights import Layout
from motet.training.randomness import generator

LOCAL = {"epochs": 2, "batch": 4, "lr": 0.1, "lr_decay": 1.0, "momentum": 0.5, "weight_decay": 0.01}
SIZES = {0: 9, 1: 6, 2: 12, 3: 60}  # unequal, so that uniform and by-samples averages differ
EXACT = {"rtol": 1e-4, "atol": 1e-6}
FACTS = Facts((0, 1, 2), 3, 5, 3)  # where a test does not care


def small_net() -> Net:
    """Six features, four hidden units, three classes."""
    torch.manual_seed(3)
    stages: OrderedDict[str, nn.Module] = OrderedDict(
        fc1=nn.Sequential(OrderedDict(linear=nn.Linear(6, 4), act=nn.Tanh())), fc2=nn.Linear(4, 3)
    )
    return Net(stages, input_of(6))


def client(id: int, round: int = 1, private: State | None = None, new: bool = False, **local: Any) -> Client:
    """A client with its own few samples of mostly its own class."""
    rng = torch.Generator().manual_seed(100 + id)
    n = SIZES[id]
    prepare = VectorPrepare((6,))
    x, y = torch.randn(n, 6, generator=rng), torch.randint(3, (n,), generator=rng)
    y[: n // 2] = id % 3
    train, nothing = Samples(x, y, prepare), Samples(x[:0], y[:0], prepare)
    return Client(
        ClientData(id, train, nothing, train, new=new),
        round,
        RunContext(
            classes=3,
            seed=7,
            local=checked(LocalSettings, LOCAL | local, "local"),
            adapt=checked(AdaptSettings, {"epochs": 2, "lr": 0.05}, "adapt"),
        ),
        private={} if private is None else private,
    )


def build(method: str, clients: int = 3) -> tuple[Method, State]:
    built = build_method(method, small_net(), Facts(tuple(range(clients)), clients, 5, 3))
    return built, built.start()


def flat(module: nn.Module) -> Tensor:
    return Layout(module).flatten(module)


def loaded(w: Tensor) -> Net:
    """A net with these flat weights."""
    net = small_net()
    Layout(net).bind(net, w.clone())
    return net


def batches(who: Client, epochs: int, purpose: str = "train") -> Iterator[tuple[Tensor, Tensor]]:
    """What the client's randomness deals, written out."""
    rng, n = generator(7, purpose, who.round, who.id), who.samples
    for _ in range(epochs):
        order = torch.randperm(n, generator=rng)
        for start in range(0, n, who.local.batch):
            rows = order[start : start + who.local.batch]
            yield who.data.train.x[rows], who.data.train.y[rows]


def sgd(
    who: Client,
    w: Tensor,
    correction: Callable[[Tensor], Tensor] | None = None,
    epochs: int | None = None,
    purpose: str = "train",
    lr: float | None = None,
    parameters: Callable[[Net], Any] = Net.parameters,
) -> tuple[Tensor, int]:
    """Local training by torch.optim.SGD on a copy, with a correction of the gradient; the weights and K."""
    net, rule = copy.deepcopy(loaded(w)), who.local
    optimizer = torch.optim.SGD(parameters(net), lr or rule.lr, momentum=rule.momentum, weight_decay=rule.weight_decay)
    steps = 0
    for x, y in batches(who, epochs or rule.epochs, purpose):
        net.zero_grad()
        cross_entropy(net(x), y).backward()
        if correction is not None:
            extra = correction(flat(net))
            for name, p in net.named_parameters():
                p.grad = p.grad + Layout(net).places[name].view(extra)
        optimizer.step()
        steps += 1
    return flat(net), steps


def mean(values: list[Tensor], shares: list[int] | None = None) -> Tensor:
    weights = torch.tensor(shares or [1] * len(values), dtype=torch.float32)
    return (torch.stack(values) * weights[:, None]).sum(0) / weights.sum()


def train(method: Method, server: State, ids: list[int], round: int, kept: dict[int, State]) -> dict[int, Message]:
    """One round of these clients; `kept` holds their private states."""
    replies = {}
    for i in ids:
        who = client(i, round, kept.setdefault(i, {}))
        replies[i] = method.train(who, method.broadcast(server, i))
    return replies
