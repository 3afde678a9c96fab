"""Replies are added up as they come: the same bits as at once, and no client's model is held on to."""

import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from motet.engines import Inline
from motet.errors import MotetError
from motet.messages.checks import ReplyChecks
from motet.messages.message import Message, State, encode, tensor
from motet.messages.replies import Replies, ReplyCollector, Rule, average
from motet.messages.task import Outcome, Task
from motet.methods.averaging import Averaging
from motet.server.assembly import Assembly, assemble
from motet.server.round_loop import RoundLoop, RunState
from motet.testing.twin import Notes, play, tiny

RULES: dict[str, Rule] = {"w": "mean", "total": "sum", "own": "each", "n": "sum"}


def reply(i: int, n: int | None = None, size: int = 5) -> Message:
    rng = torch.Generator().manual_seed(i)
    fields = {name: torch.randn(size, generator=rng) for name in ("w", "total", "own")}
    return {**fields, "n": n or 3 + 7 * i}


def collected(
    replies: Mapping[int, Message], expected: Mapping[int, float] | None = None, both: bool = True
) -> tuple[Replies, dict[int, str]]:
    weightings = ("samples", "uniform") if both else ("samples",)
    asked = {i: float(r["n"]) for i, r in replies.items()} if expected is None else expected
    collector = ReplyCollector(ReplyChecks(RULES), RULES, lambda name: weightings, asked)
    for i, each in replies.items():
        collector.add(i, each)
    return collector.finish()


@pytest.mark.parametrize("weighting", ["samples", "uniform"])
def test_added_up_one_by_one_they_have_the_bits_of_all_at_once(weighting: Any) -> None:
    replies = {i: reply(i) for i in range(9)}
    found, reasons = collected(replies)
    assert not reasons and list(found) == list(replies)
    assert torch.equal(average(found, "w", weighting), average(replies, "w", weighting))
    assert torch.equal(found.sum("total"), Replies(replies).sum("total"))
    assert torch.equal(tensor(found[4], "own"), tensor(replies[4], "own"))


def test_a_mean_may_be_changed_by_who_asked_for_it() -> None:
    found, _ = collected({i: reply(i) for i in range(3)})
    before = found.mean("w")
    found.mean("w").zero_()
    assert torch.equal(found.mean("w"), before)


def test_who_fails_or_tells_another_number_is_weighed_right_up_to_rounding() -> None:
    replies = {i: reply(i) for i in range(6)}
    expected = {i: float(r["n"]) for i, r in replies.items()}
    replies[2] = reply(2, n=500)
    del replies[4]
    found, _ = collected(replies, expected)
    for weighting in ("samples", "uniform"):
        assert torch.allclose(average(found, "w", weighting), average(replies, "w", weighting), atol=1e-6)


def test_whose_form_differs_is_not_in_the_sum() -> None:
    replies = {0: reply(0, size=3)} | {i: reply(i) for i in range(1, 5)}
    found, reasons = collected(replies)
    assert list(found) == [1, 2, 3, 4] and reasons == {0: "reply field 'own' has shape (3,); accepted: (5,)"}
    honest = {i: replies[i] for i in found}
    assert torch.allclose(found.mean("w"), average(honest, "w"), atol=1e-6)
    assert torch.allclose(found.sum("total"), Replies(honest).sum("total"), atol=1e-6)


def test_a_field_that_is_each_clients_own_may_be_missing_and_the_mean_is_over_all() -> None:
    replies = {i: reply(i) for i in range(4)}
    del replies[1]["own"], replies[0]["own"], replies[2]["own"]
    found, reasons = collected(replies)
    assert not reasons and "own" in found[3]
    assert torch.allclose(found.mean("w"), average(replies, "w"), atol=1e-6)


def test_reading_what_was_added_up_is_one_sentence_that_says_what_to_do() -> None:
    found, _ = collected({i: reply(i) for i in range(3)}, both=False)
    with pytest.raises(MotetError, match=r"'w' is added up over all clients, as its rule 'mean' says.* rule 'each'"):
        tensor(found[1], "w")
    with pytest.raises(MotetError, match="was not added up with weighting 'uniform'"):
        found.mean("w", "uniform")


# ---------------------------------------------------------------- in a run


class Watching(Inline):
    """Notes how many clients' models are alive while the replies come in."""

    def __init__(self, assembly: Assembly):
        super().__init__(assembly.workplace)
        self.alive: list[int] = []

    def run(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        models: list[weakref.ref[Tensor]] = []
        for outcome in super().run(tasks):
            if outcome.kind == "train" and outcome.reply is not None:
                models.append(weakref.ref(tensor(outcome.reply, "w")))
            yield outcome
            del outcome
            self.alive.append(sum(model() is not None for model in models))


@pytest.mark.parametrize(
    ("method", "held"),
    [("fedavg", 1), ("scaffold", 1), ("fedrod", 1), ("fedavg+dbe", 1), ("pfedme", 1), ("krum(f=0)", 6), ("feddyn", 6)],
)
def test_the_server_holds_one_model_of_a_cohort_unless_the_method_needs_each(method: str, held: int) -> None:
    asked = tiny(
        method,
        data={"clients": 6, "new_clients": 0.0},
        rounds={"count": 1, "cohort": 1.0},
        scoring={"personal_model": "global_plus_personal"},  # or clients keep their last model, in this process
    )
    assembly = assemble(asked)
    engine = assembly.engine = Watching(assembly)
    RoundLoop(assembly, Notes()).run(RunState(0, assembly.method.start()))
    assert max(engine.alive) == held


@pytest.mark.parametrize("metric", ["", "update_variance"])
def test_a_metric_that_looks_at_every_model_changes_no_bit(metric: str) -> None:
    asked = tiny("fedavg", scoring={"metrics": [metric] if metric else []})
    assert encode(play(asked).server) == encode(play(tiny("fedavg")).server)


class Exposing(Averaging):
    """Sends its server state itself, not a copy."""

    def broadcast(self, server: State, client_id: int, scoring: bool = False) -> Message:
        return server


def test_a_server_state_that_is_sent_as_it_is_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    from motet.methods import METHODS, MethodEntry

    monkeypatch.setitem(METHODS, "exposing", MethodEntry("exposing", "", "", whole=Exposing))
    played = play(tiny("exposing", scoring={"metrics": ["calibration"]}))
    played.assembly.final_evaluation.find(_end_of(played))
    assert set(played.server) == {"w", "round"}


def _end_of(played: Any) -> Any:
    from motet.server.final_evaluation import FinalState

    return FinalState(played.server, played.progress.round, played.rows, played.clients)


def test_with_transforms_a_message_is_built_once_for_each_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    broadcast = Averaging.broadcast

    def counted(self: Averaging, server: State, client_id: int, scoring: bool = False) -> Message:
        if not scoring:
            calls.append(client_id)
        return broadcast(self, server, client_id, scoring)

    asked = tiny("fedavg", transforms="clip(norm=1.0)", rounds={"count": 1, "cohort": 1.0}, data={"new_clients": 0.0})
    assembly = assemble(replace_engine(asked))
    monkeypatch.setattr(Averaging, "broadcast", counted)
    RoundLoop(assembly, Notes()).run(RunState(0, assembly.method.start()))
    assert sorted(calls) == assembly.client_ids


def replace_engine(experiment: Any) -> Any:
    return experiment.with_({"engine.name": "inline"})
