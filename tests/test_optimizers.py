"""Local Adam and AdamW: torch's own steps, alone and in groups, the same on every engine; rules of SGD refuse them."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

import motet
from motet.config.section import checked
from motet.config.sections import LocalSettings
from motet.data import Samples, VectorPrepare
from motet.errors import MotetError
from motet.messages.message import Message, State
from motet.messages.task import Task
from motet.server.assembly import assemble
from motet.testing.twin import tiny
from motet.training.flat_weights import Layout
from motet.training.local import Descent

ADAM: list[dict[str, Any]] = [
    {"optimizer": "adam"},
    {"optimizer": "adam", "weight_decay": 0.1, "momentum": 0.5},
    {"optimizer": "adamw", "weight_decay": 0.1},
    {"optimizer": "adamw", "weight_decay": 0.3, "clip": 0.05, "momentum": 0.0},
]


def rule(**changes: Any) -> LocalSettings:
    return checked(LocalSettings, {"epochs": 3, "batch": 4, "momentum": 0.9, "weight_decay": 0.0} | changes, "local")


def samples(n: int = 18) -> Samples:
    x = torch.randn(n, 3, generator=torch.Generator().manual_seed(1))
    return Samples(x, torch.arange(n) % 3, VectorPrepare((3,)))


def net() -> torch.nn.Module:
    torch.manual_seed(2)
    return torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3))


def descent(settings: LocalSettings) -> Descent:
    return Descent(settings, 0.05, torch.Generator().manual_seed(7))


@pytest.mark.parametrize("choices", ADAM, ids=str)
def test_the_steps_are_those_of_torch(choices: dict[str, Any]) -> None:
    settings, data = rule(**choices), samples()
    model, theirs = net(), net()
    layout = Layout(model)
    w = layout.flatten(model)
    g = torch.zeros_like(w)
    layout.bind(model, w, g)
    descent(settings).run(data, w, g, lambda x, y: cross_entropy(model(x), y).backward())

    kind = torch.optim.Adam if settings.optimizer == "adam" else torch.optim.AdamW
    optimizer = kind(theirs.parameters(), lr=0.05, betas=(settings.momentum, 0.999), weight_decay=settings.weight_decay)
    for x, y in descent(settings).batches(data):
        optimizer.zero_grad()
        cross_entropy(theirs(x), y).backward()
        if settings.clip:
            torch.nn.utils.clip_grad_norm_(theirs.parameters(), settings.clip)
        optimizer.step()
    torch.testing.assert_close(w, layout.flatten(theirs), atol=2e-6, rtol=0)


def states(method: str, local: dict[str, Any], together: bool) -> tuple[State, dict[int, State]]:
    """Return the server's and the clients' states after two rounds, trained as one computation or one by one."""
    assembly = assemble(tiny(method, local=local))
    server: State = assembly.method.start()
    private: dict[int, State] = {i: {} for i in assembly.client_ids}
    for round in (1, 2):
        messages = {i: assembly.method.broadcast(server, i) for i in assembly.client_ids}
        clients = [
            assembly.workplace.client(Task("train", i, round, messages[i]), private[i]) for i in assembly.client_ids
        ]
        assert assembly.method.most_batched() > 1
        replies: list[Any] = (
            assembly.method.train_batched(clients, list(messages.values()))
            if together
            else [assembly.method.train(c, messages[c.id]) for c in clients]
        )
        answered: dict[int, Message] = {c.id: r for c, r in zip(clients, replies, strict=True)}
        server = assembly.method.aggregate(server, answered)
    return server, private


@pytest.mark.parametrize("method", ["fedavg", "fedprox(mu=0.5)", "feddyn(lam=0.1)", "local", "pgfed"])
@pytest.mark.parametrize("local", ADAM[:3], ids=str)
def test_groups_of_clients_learn_what_each_alone_would(method: str, local: dict[str, Any]) -> None:
    (alone, mine), (group, theirs) = (states(method, {**local, "batch": 7, "lr": 0.01}, t) for t in (False, True))
    # Adam divides by the root of a squared gradient: where that is rounding alone, so is the sign of a step
    for a, b in ((alone, group), *((mine[i], theirs[i]) for i in mine)):
        for name in a:
            if isinstance(a[name], Tensor):
                torch.testing.assert_close(a[name], b[name], atol=3e-3, rtol=1e-3)


def test_corrections_of_parts_act_before_the_step() -> None:
    far, near = (states(f"fedprox(mu={mu})", {"optimizer": "adam", "lr": 0.01}, True)[0]["w"] for mu in (0.0, 10.0))
    start = assemble(tiny("fedavg")).method.start()["w"]
    assert isinstance(far, Tensor) and isinstance(near, Tensor) and isinstance(start, Tensor)
    assert (near - start).norm() < 0.9 * (far - start).norm()


@pytest.mark.parametrize("method", ["fedavg+ft", "ditto", "superfed-mm", "fedrep", "fedavg+dbe"])
def test_engines_agree_to_the_bit(method: str, tmp_path: Path) -> None:
    choices: dict[str, Any] = {"local.optimizer": "adam", "local.lr": 0.003, "checkpoint.every": 1}
    runs = [
        motet.run(data="digits", method=method, clients=4, rounds=2, epochs=1, out=tmp_path / name, set=choices | more)
        for name, more in (
            ("inline", {"engine.name": "inline"}),
            ("pool", {"engine.name": "pool", "engine.workers": 2}),
        )
    ]
    records = [{path.name: path.read_bytes() for path in (run.folder / "checkpoint").glob("*-*")} for run in runs]
    assert records[0] == records[1] and len(records[0]) > 0


@pytest.mark.parametrize(
    ("method", "why"),
    [
        ("scaffold", "control variates"),
        ("fednova", "plain SGD steps"),
        ("apple", "by SGD"),
        ("fedbasis", "steps of SGD"),
        ("fedbasis+ft", "steps of SGD"),
    ],
)
def test_rules_of_sgd_refuse_adam_in_a_sentence(method: str, why: str) -> None:
    with pytest.raises(MotetError, match=rf"{why}.*local.optimizer is 'adam'; accepted: optimizer = 'sgd'"):
        assemble(tiny(method, local={"optimizer": "adam"}))


def test_moments_do_not_persist() -> None:
    with pytest.raises(MotetError, match=r"'persist' but local\.optimizer is 'adamw'"):
        assemble(tiny("fedavg", local={"optimizer": "adamw", "momentum_across_rounds": "persist"}))
