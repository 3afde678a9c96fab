"""Uploads added up by workers before they travel: the same numbers up to rounding, and few bytes for the driver."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from every_method import assert_same_run
from test_replies import RULES, reply
from torch import Tensor

from motet.config.identity import differing_fields, fingerprint
from motet.engines import Inline
from motet.errors import MotetError
from motet.messages.checks import ReplyChecks
from motet.messages.message import Message, tensor
from motet.messages.replies import Replies, ReplyCollector, average
from motet.messages.task import Outcome, Task
from motet.methods import METHODS, MethodEntry
from motet.methods.averaging import Averaging
from motet.runs.run import run
from motet.server.assembly import assemble
from motet.server.partial_sums import AddingUp, parcels
from motet.server.round_loop import RoundLoop, RunState
from motet.testing.twin import Notes, Played, far, tiny

BOTH: tuple[Any, ...] = ("samples", "uniform")
LARGER = {"data": {"clients": 8, "new_clients": 0.0}, "rounds": {"count": 3, "cohort": 1.0}}


def collector(ids: Sequence[int], partial: bool = False, like: Mapping[str, Tensor] | None = None) -> ReplyCollector:
    expected = {i: float(reply(i)["n"]) for i in ids}
    return ReplyCollector(ReplyChecks(RULES, like), RULES, lambda _: BOTH, expected, partial)


def through_workers(replies: Mapping[int, Message], size: int, **of_driver: Any) -> tuple[Replies, dict[int, str]]:
    """What the server makes of replies that workers added up in parcels of this size."""
    ids, there = list(replies), collector(list(replies), partial=True, **of_driver)
    for at in range(0, len(ids), size):
        here = collector(ids[at : at + size])
        for i in ids[at : at + size]:
            here.add(i, replies[i])
        packed = here.packed()
        for i in ids[at : at + size]:
            there.add(i, packed.get(i, replies[i]))
    return there.finish()


def alone(replies: Mapping[int, Message], **of_driver: Any) -> tuple[Replies, dict[int, str]]:
    """What the server makes of the same replies if each travels by itself."""
    there = collector(list(replies), **of_driver)
    for i, one in replies.items():
        there.add(i, one)
    return there.finish()


def assert_alike(found: Replies, other: Replies) -> None:
    assert list(found) == list(other)
    for weighting in BOTH:
        assert torch.allclose(found.mean("w", weighting), other.mean("w", weighting), atol=1e-6)
    assert torch.allclose(found.sum("total"), other.sum("total"), atol=1e-5)
    assert all(torch.equal(tensor(found[i], "own"), tensor(other[i], "own")) for i in found)
    assert [found[i]["n"] for i in found] == [other[i]["n"] for i in other]


@pytest.mark.parametrize("size", [2, 3, 9])
def test_sums_of_sums_are_the_sums_up_to_rounding(size: int) -> None:
    replies = {i: reply(i) for i in range(9)}
    found, reasons = through_workers(replies, size)
    assert not reasons
    assert_alike(found, alone(replies)[0])
    assert torch.allclose(found.mean("w"), average(replies, "w"), atol=1e-6)


def test_a_wrong_reply_is_set_aside_with_its_sentence_and_in_no_sum() -> None:
    replies = {i: reply(i) for i in range(9)}
    replies[1] = reply(1, size=3)  # known when all are there
    replies[2]["w"] = torch.full((5,), torch.nan)
    replies[3] = reply(3, n=-1)
    replies[4]["more"] = torch.ones(5)
    del replies[5]["total"]
    replies[6]["own"] = 3.0
    found, reasons = through_workers(replies, 3)
    other, sentences = alone(replies)
    assert reasons == sentences and list(found) == [0, 7, 8]
    assert_alike(found, other)
    like = {"w": torch.ones(5)}  # the form of w is known, and a whole parcel has another
    replies = {i: reply(i, size=3 if i < 3 else 5) for i in range(7)}
    found, reasons = through_workers(replies, 3, like=like)
    assert reasons == alone(replies, like=like)[1] and list(found) == [3, 4, 5, 6]
    assert_alike(found, alone(replies, like=like)[0])


def test_nobody_but_workers_may_send_sums() -> None:
    """A real site that claims to have added up others' replies is set aside."""
    here = collector([0, 1])
    for i in (0, 1):
        here.add(i, reply(i))
    _, reasons = alone(here.packed())
    assert len(reasons) == 2
    assert all(words.startswith("reply field 'partial.") and "is not known" in words for words in reasons.values())


# ---------------------------------------------------------------- in a run


class Counting(Inline):
    """Counts the bytes of replies to trainings that reach the driver."""

    arrived = 0

    def run(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        for outcome in super().run(tasks):
            self.arrived += outcome.received if outcome.kind == "train" else 0
            yield outcome


def played(method: str, size: int, **changes: Any) -> tuple[Played, Counting]:
    """A run in memory, with trainings in parcels of this size."""
    assembly = assemble(tiny(method, **LARGER | changes, engine={"name": "inline", "partial_sums": size}))
    engine = Counting(AddingUp(assembly.workplace), groups=parcels(size)) if size else Counting(assembly.workplace)
    assembly.engine, notes = engine, Notes()
    progress = RoundLoop(assembly, notes).run(RunState(0, assembly.method.start()))
    new = assembly.evaluator.new_clients(progress.server, progress.round)
    return Played(assembly, notes.rows, notes.clients, progress, new), engine


@pytest.mark.parametrize(
    ("method", "fewer"),  # by which factor; the servers of PGFed and FedBasis need some or all fields of each client
    [
        *(("fedavg", 3.5), ("scaffold", 2.5), ("fedrod", 3.5), ("pgfed", 1.5), ("fedavg+dbe", 3.5)),
        *(("fedbasis(warm_start=0)", 0.9), ("fedavgm", 3.5)),
    ],
)
def test_a_run_has_the_same_numbers_up_to_rounding_and_few_bytes_reach_the_driver(method: str, fewer: float) -> None:
    (apart, many), (together, few) = played(method, 0), played(method, 4)
    assert far(apart.server, together.server) is None
    assert [row["bytes_up"] for row in together.rows] == [row["bytes_up"] for row in apart.rows]  # what clients sent
    assert [row["set_aside"] for row in together.rows] == [row["set_aside"] for row in apart.rows]
    assert few.arrived * fewer < many.arrived


def test_what_a_method_or_metric_needs_of_each_client_travels_whole() -> None:
    for method, scoring in (("krum", {}), ("fedavg", {"metrics": ["update_variance"]})):
        (apart, many), (together, all_too) = played(method, 0, scoring=scoring), played(method, 4, scoring=scoring)
        assert torch.equal(tensor(together.server, "w"), tensor(apart.server, "w"))
        assert together.timeless() == apart.timeless()
        assert all_too.arrived > many.arrived


class Strange(Averaging):
    """Client 2 replies with weights of another shape."""

    def train(self, client: Any, message: Message) -> Message:
        reply = super().train(client, message)
        return reply | {"w": torch.ones(3)} if client.id == 2 else reply


def test_a_client_that_is_set_aside_is_named_as_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "strange", MethodEntry("strange", "", "", whole=Strange))
    (apart, _), (together, _) = played("strange", 0), played("strange", 4)
    assert [row["set_aside"] for row in together.rows] == [row["set_aside"] for row in apart.rows]
    assert together.rows[0]["set_aside"] and far(apart.server, together.server) is None


def test_the_bits_are_the_same_on_every_engine(tmp_path: Path) -> None:
    for name, engine in (("inline", {"name": "inline"}), ("pool", {"name": "pool", "workers": 2})):
        run(tiny("scaffold", **LARGER, engine=engine | {"partial_sums": 3}), tmp_path / name)
    assert_same_run(tmp_path / "pool", tmp_path / "inline")


def test_it_is_part_of_what_makes_an_experiment() -> None:
    usual, other = tiny("fedavg"), tiny("fedavg", engine={"name": "inline", "partial_sums": 3})
    assert fingerprint(usual) != fingerprint(other) and differing_fields([usual, other]) == ["engine.partial_sums"]
    assert fingerprint(usual) == fingerprint(tiny("fedavg", engine={"name": "pool", "workers": 3}))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"transforms": "clip(norm=1.0)"}, r"partial_sums is 3 but transforms is .* accepted: partial_sums = 0"),
        ({"name": "motet.engines:Inline"}, r"partial_sums is 3 but engine.name is .* accepted: partial_sums = 0"),
        ({"partial_sums": -1}, r"engine.partial_sums is -1"),
    ],
)
def test_what_excludes_it_is_refused(changes: dict[str, Any], sentence: str) -> None:
    engine = {"partial_sums": 3} | {name: value for name, value in changes.items() if name != "transforms"}
    with pytest.raises(MotetError, match=sentence):
        assemble(tiny("fedavg", engine=engine, transforms=changes.get("transforms", "")))


def test_a_state_of_a_client_is_its_own() -> None:
    """Private states come back client by client, to the bit as without."""
    once = {"count": 1, "cohort": 1.0}
    (apart, _), (together, _) = played("ditto", 0, rounds=once), played("ditto", 4, rounds=once)
    assert apart.private() == together.private() and any(map(len, apart.private().values()))
