"""Several clients trained as one computation: what each of them alone would have learned."""

from typing import Any

import pytest
import torch
from torch import Tensor

from motet.errors import Diverged
from motet.messages.message import Message, State
from motet.messages.task import Task
from motet.server.assembly import Assembly, assemble
from motet.testing.twin import tiny
from motet.training.batched_clients import GROUP
from motet.training.client import Client

METHODS = [
    "fedavg",
    "fedavg+ft",
    "local",
    "ditto",
    "fedprox(mu=0.5)",
    "scaffold",
    "feddyn(lam=0.1)",
    "pgfed",
    "pgfedmo",
]
RULES: list[dict[str, Any]] = [
    {"momentum": 0.9, "weight_decay": 0.1, "momentum_across_rounds": "persist"},
    {"momentum": 0.0, "weight_decay": 0.0, "batch": 7, "epochs": 3},
    {"steps": 5, "momentum": 0.5},
    {"batch": 50, "drop_last": True},
]


def clients_of(
    assembly: Assembly, server: State, round: int, private: dict[int, State]
) -> list[tuple[Client, Message]]:
    """Everybody, with the state each has kept."""
    found = []
    for i in assembly.client_ids:
        message = assembly.method.broadcast(server, i)
        found.append((assembly.workplace.client(Task("train", i, round, message), private.setdefault(i, {})), message))
    return found


def two_rounds(method: str, rule: dict[str, Any], together: bool) -> tuple[State, dict[int, State]]:
    """The server's and the clients' states after two rounds with all clients."""
    assembly = assemble(tiny(method, local=rule))
    server, private = assembly.method.start(), {}
    for round in (1, 2):
        met = clients_of(assembly, server, round, private)
        if together:
            replies = assembly.method.train_batched([c for c, _ in met], [m for _, m in met])
        else:
            replies = [assembly.method.train(c, m) for c, m in met]
        server = assembly.method.aggregate(server, {c.id: r for (c, _), r in zip(met, replies, strict=True)})
    return server, private


def close(one: State, other: State) -> None:
    assert list(one) == list(other)
    for name, value in one.items():
        if isinstance(value, Tensor) and value.is_floating_point():
            torch.testing.assert_close(value, other[name], rtol=1e-4, atol=2e-5, msg=name)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("rule", RULES)
def test_the_same_up_to_rounding(method: str, rule: dict[str, Any]) -> None:
    (server, private), (server_alone, private_alone) = (
        two_rounds(method, rule, together) for together in (True, False)
    )
    close(server, server_alone)
    for i in private_alone:
        close(private[i], private_alone[i])


def test_clients_really_differ_in_steps_and_the_group_is_padded() -> None:
    assembly = assemble(tiny("fedavg"))
    met = clients_of(assembly, assembly.method.start(), 1, {})
    counts = [c.descent().count(c.samples) for c, _ in met]
    assert len(set(counts)) > 1 and len({c.samples % c.local.batch for c, _ in met}) > 1
    for (c, _), count in zip(met, counts, strict=True):
        assert len(list(c.descent().batches(c.data.train))) == count


def test_one_client_that_diverges_takes_nobody_along() -> None:
    assembly = assemble(tiny("fedavg", scoring={"personal_model": "last_participation"}))
    met = clients_of(assembly, assembly.method.start(), 1, {})
    met[1][1]["w"] = torch.full_like(met[1][1]["w"], float("nan"))
    replies = assembly.method.train_batched([c for c, _ in met], [m for _, m in met])
    assert [isinstance(r, Diverged) for r in replies] == [i == 1 for i in range(len(met))]
    assert "model" not in met[1][0].private and "model" in met[0][0].private


@pytest.mark.parametrize(
    ("method", "changes", "size"),
    [
        ("fedavg", {}, GROUP),
        ("fedavg", {"net": {"name": "twonn"}}, 11),
        ("fedavg+bsm", {}, 1),
        ("fedavg+dbe", {}, 1),
        ("fedrod", {}, 1),
        ("superfed-mm", {}, 1),
        ("fedbasis", {}, 1),
        ("fedavg+shared-data", {}, 1),
        ("fedavg", {"precision": "bf16"}, 1),
        ("fedavg", {"local": {"clip": 1.0}}, 1),
        ("fedavg", {"local": {"batched_clients": False}}, 1),
        ("fedavg", {"net": {"name": "twocnn"}}, 1),
    ],
)
def test_how_many_are_trained_as_one(method: str, changes: dict[str, Any], size: int) -> None:
    changes["local"] = {"batched_clients": True} | changes.get("local", {})
    assert assemble(tiny(method, **changes)).workplace.most_batched == size
