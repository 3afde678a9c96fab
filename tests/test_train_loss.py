"""Training losses: what they are, that they change nothing, and that no method sees them."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import motet
from motet.engines import Inline
from motet.messages.message import Message, State, encode
from motet.messages.task import Outcome, Task
from motet.methods.averaging import Averaging
from motet.runs.record import Record
from motet.runs.run import run
from motet.server.assembly import assemble
from motet.server.round_loop import RoundLoop, RunState
from motet.testing.twin import Notes, Played, play, tiny
from motet.training.local import TrainLoss

STANDS_STILL: dict[str, Any] = {"lr": 1e-12, "momentum": 0.0, "weight_decay": 0.0, "batch": 7, "epochs": 2}


def test_the_mean_is_over_the_last_epoch_by_samples() -> None:
    told = TrainLoss()
    assert told.mean() is None
    told.begin(2)
    for loss, samples in ((100.0, 4), (100.0, 4), (1.0, 4), (4.0, 2)):
        told.add(torch.tensor(loss, requires_grad=True), samples)
    assert told.mean() == pytest.approx((1.0 * 4 + 4.0 * 2) / 6)
    told.begin(3)  # another stretch
    assert told.mean() is None
    told.add(torch.tensor(math.nan), 3)
    assert told.mean() is None


def loss_of_the_model(played: Played, client_id: int, w: torch.Tensor) -> float:
    train = played.assembly.federation.clients[client_id].train
    net = played.assembly.workplace.generic_net
    played.assembly.workplace.generic_layout.bind(net, w.clone())
    x, y = train.batch(torch.arange(len(train)))
    with torch.no_grad():
        return float(torch.nn.functional.cross_entropy(net.eval()(x), y))


@pytest.mark.parametrize("method", ["fedavg", "scaffold+ft", "fedrep", "ditto", "superfed-mm(start=1)", "fedbasis"])
def test_where_nothing_moves_it_is_the_loss_of_the_model_sent(method: str) -> None:
    played = play(tiny(method, local=STANDS_STILL, rounds={"count": 1}))
    row, w = played.rows[-1], played.assembly.method.start()["w"]
    losses = dict(zip(row["cohort"], row["train_losses"], strict=True))
    for client_id, found in losses.items():
        if method != "fedrep":  # whose heads are everybody's own; at first the same
            assert found == pytest.approx(loss_of_the_model(played, client_id, w), rel=1e-4)
        assert math.isfinite(found)
    assert row["train_loss"] == pytest.approx(sum(losses.values()) / len(losses))


def test_also_in_groups(tmp_path: Path) -> None:
    changes = {"rounds": {"count": 1, "cohort": 1.0}, "data": {"clients": 12}, "engine": {"name": "inline"}}
    rows = []
    for together in (True, False):
        asked = tiny("fedprox", local={**STANDS_STILL, "batched_clients": together}, **changes)
        rows.append(Record(run(asked, tmp_path / str(together))).rounds[-1])
    assert rows[0]["train_losses"] == pytest.approx(rows[1]["train_losses"], rel=1e-5)
    moving = {"batch": 7, "epochs": 3, "lr": 0.05}
    rows = []
    for together in (True, False):
        asked = tiny("fedprox", local={**moving, "batched_clients": together}, **changes)
        rows.append(Record(run(asked, tmp_path / f"moving {together}")).rounds[-1])
    assert rows[0]["train_losses"] == pytest.approx(rows[1]["train_losses"], rel=1e-3)


@pytest.mark.parametrize(
    "method", ["fedbasis(warm_start=0)", "fedbasis(warm_start=0, plain=true)", "superfed-lm(start=0)"]
)
def test_methods_with_steps_of_their_own_tell_it_too(method: str) -> None:
    row = play(tiny(method)).rows[-1]
    assert all(loss > 0 for loss in row["train_losses"]) and len(row["train_losses"]) == len(row["cohort"])


@pytest.mark.parametrize("method", ["scaffold", "fedrod", "superfed-mm", "fedbasis", "local"])
def test_it_changes_no_bit_and_can_be_left_out(method: str) -> None:
    told, silent = play(tiny(method)), play(tiny(method, scoring={"train_loss": False}))
    assert encode(told.server) == encode(silent.server) and told.private() == silent.private()
    assert told.clients == silent.clients
    assert all("train_loss" in row for row in told.rows if row["round"])
    assert not any("train_loss" in row or "train_losses" in row for row in silent.rows)
    more = [a["bytes_up"] - b["bytes_up"] for a, b in zip(told.rows, silent.rows, strict=True) if a["round"]]
    assert all(0 < extra < 200 * len(row["cohort"]) for extra, row in zip(more, silent.rows, strict=False))


def test_no_method_sees_it_and_the_bytes_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[str]] = []
    aggregate = Averaging.aggregate

    def spy(self: Averaging, server: State, replies: Mapping[int, Message]) -> State:
        seen.extend(set(reply) for reply in replies.values())
        return aggregate(self, server, replies)

    monkeypatch.setattr(Averaging, "aggregate", spy)
    played = play(tiny("fedavg"), strict=True)
    assert seen and all(names == {"w", "n"} for names in seen)
    trained = [e for e in played.engine.exchanges if e.task.kind == "train"]
    assert all(isinstance(e.train_loss, float) for e in trained)
    for row in played.rows:
        assert (row["bytes_down"], row["bytes_up"]) == played.engine.wire_bytes(row["round"])


class Boasting(Inline):
    """Its clients tell a loss that is none."""

    lie: Any = math.nan

    def run(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        return (replace(o, train_loss=self.lie) if o.kind == "train" else o for o in super().run(tasks))


@pytest.mark.parametrize("lie", [math.nan, math.inf, "0.5", True])
def test_a_lie_about_it_is_no_number_and_does_no_harm(lie: Any) -> None:
    assembly, notes = assemble(tiny("fedavg", rounds={"count": 1})), Notes()
    engine = assembly.engine = Boasting(assembly.workplace)
    engine.lie = lie
    RoundLoop(assembly, notes).run(RunState(0, assembly.method.start()))
    assert notes.rows[0]["train_loss"] is None and set(notes.rows[0]["train_losses"]) == {None}
    assert not notes.rows[0]["set_aside"]


def test_losses_are_in_every_result() -> None:
    result = motet.run(method="fedavg", clients=4, rounds=2, epochs=1, data="digits", subset=0.3)
    assert all(row["train_loss"] > 0 for row in result.rounds)
    for name in ("generic.common.loss.pooled", "personal.split.loss.mean", "generic.weighted.loss.mean"):
        assert 0 < result.figures[name] < 10
    assert all(row["personal.split.loss"] > 0 for row in result.clients)
