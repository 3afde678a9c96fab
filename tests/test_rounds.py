"""The one round loop: who takes part, what is scored when, who is set aside, and what the server learns."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from motet.config.sections import RoundSettings
from motet.data import Samples
from motet.engines import Inline
from motet.errors import MotetError
from motet.messages.message import byte_count, encode
from motet.messages.task import Outcome, Task
from motet.runs.summary import summarize
from motet.server.assembly import Assembly, assemble
from motet.server.round_loop import RoundLoop, RunState
from motet.testing.twin import Notes, Played, play, tiny

NAN = "training left the finite numbers (NaN or infinity in the weights)"


def cohorts(played: Played) -> list[Any]:
    return [row["cohort"] for row in played.rows]


# ---------------------------------------------------------------- who takes part


@given(st.integers(1, 500), st.floats(0.01, 1.0))
def test_a_share_of_clients_is_rounded_down_and_never_nobody(clients: int, share: float) -> None:
    size = RoundSettings(cohort=share).cohort_size(clients)
    assert 1 <= size <= clients and (size == 1 or size <= share * clients + 1e-6 < size + 1 + 1e-6)


@pytest.mark.parametrize(
    ("cohort", "clients", "size"), [(0.2, 100, 20), (0.29, 100, 29), (0.4, 20, 8), (1.0, 7, 7), (5.0, 50, 5)]
)
def test_cohorts_of_the_papers(cohort: float, clients: int, size: int) -> None:
    assert RoundSettings(cohort=cohort).cohort_size(clients) == size


@pytest.mark.parametrize("cohort", [1.5, 6.0, 100.0])
def test_a_cohort_that_is_not_there_is_refused_before_anything_runs(cohort: float) -> None:
    with pytest.raises(MotetError) as error:
        assemble(tiny("fedavg", rounds={"cohort": cohort}))
    assert str(error.value) == (
        f"rounds.cohort is {cohort:g}; accepted: a share up to 1, or a whole number up to the 4 clients that "
        "take part in training"
    )


def test_cohorts_depend_on_seed_and_round_alone() -> None:
    data = {"clients": 10, "new_clients": 0.2, "partition_seed": 1, "min_size": 2}
    changes: dict[str, Any] = {"data": data, "rounds": {"count": 6, "cohort": 3.0}, "scoring": {"every": 6}}
    one, other = play(tiny("fedavg", **changes)), play(tiny("scaffold", **changes, local={"epochs": 2}))
    assert cohorts(one) == cohorts(other)
    assert cohorts(one) != cohorts(play(tiny("fedavg", **changes, seed=1)))
    new = set(one.assembly.federation.new_ids)
    assert len(new) == 2
    for cohort in cohorts(one):
        assert cohort == sorted(set(cohort)) and len(cohort) == 3 and not new & set(cohort)
    assert len({tuple(cohort) for cohort in cohorts(one)}) > 1


def test_every_client_is_drawn_equally_often() -> None:
    assembly = assemble(tiny("fedavg"))
    loop = RoundLoop(assembly, Notes())
    drawn = Counter(i for round in range(1, 1001) for i in loop.sample(round))
    assert sorted(drawn) == assembly.federation.training_ids
    assert max(drawn.values()) - min(drawn.values()) < 120  # of 500 each; five standard deviations


class Asleep(Inline):
    """Some clients cannot be asked."""

    asleep: ClassVar[set[int]] = set()

    def available(self, client_ids: Sequence[int]) -> list[int]:
        return [i for i in client_ids if i not in self.asleep]


def test_rounds_draw_from_who_can_be_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    assembly = assemble(tiny("fedavg"))
    loop = RoundLoop(assembly, Notes())
    before = [loop.sample(round) for round in range(1, 50)]
    assembly.engine = Asleep(assembly.workplace)
    assert [loop.sample(round) for round in range(1, 50)] == before
    sleeper = assembly.client_ids[1]
    monkeypatch.setattr(Asleep, "asleep", {sleeper})
    after = [loop.sample(round) for round in range(1, 50)]
    assert any(sleeper in cohort for cohort in before) and not any(sleeper in cohort for cohort in after)
    assert all(len(cohort) == 2 for cohort in after)
    monkeypatch.setattr(Asleep, "asleep", set(assembly.client_ids[1:]))
    with pytest.raises(MotetError) as error:
        loop.sample(7)
    assert str(error.value) == (
        "round 7 takes 2 clients but 1 of 4 can be asked now; accepted: a smaller rounds.cohort, or resume when more "
        "of them are there"
    )


# ---------------------------------------------------------------- what is scored when


@pytest.mark.parametrize(("every", "rounds", "scored"), [(2, 5, [2, 4, 5]), (1, 3, [1, 2, 3]), (9, 2, [2])])
def test_the_last_round_is_always_scored(every: int, rounds: int, scored: list[int]) -> None:
    played = play(tiny("fedavg", rounds={"count": rounds}, scoring={"every": every}))
    assert [row["round"] for row in played.rows] == list(range(1, rounds + 1))
    assert [row["round"] for row in played.rows if "generic.common.accuracy.pooled" in row] == scored
    training = played.assembly.federation.training_ids
    assert [(row["round"], row["client"]) for row in played.clients] == [(r, i) for r in scored for i in training]
    assert [row["client"] for row in played.new.clients] == played.assembly.federation.new_ids


def test_scoring_does_not_change_the_run() -> None:
    often, seldom = (play(tiny("scaffold", scoring={"every": every})) for every in (1, 3))
    assert encode(often.server) == encode(seldom.server) and often.private() == seldom.private()


def test_the_learning_rate_of_each_round_is_recorded() -> None:
    played = play(tiny("fedavg", local={"lr": 0.2, "lr_decay": 0.5}))
    assert [row["lr"] for row in played.rows] == [0.2, 0.1, 0.05]


# ---------------------------------------------------------------- who is set aside


def poisoned(assembly: Assembly, ids: Sequence[int]) -> Assembly:
    """The same federation, in which these clients' training data are infinite."""
    for i in ids:
        data = assembly.federation.clients[i]
        bad = Samples(torch.full_like(data.train.x, torch.inf, dtype=torch.float32), data.train.y, data.train.prepare)
        assembly.federation.clients[i] = replace(data, train=bad)
    return assembly


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("method", ["fedavg", "scaffold", "feddyn", "local"])
def test_a_client_that_diverges_is_set_aside_and_named(method: str, strict: bool) -> None:
    experiment = tiny(method, rounds={"count": 2, "cohort": 1.0})
    assembly = assemble(experiment)
    bad, *good = assembly.federation.training_ids
    played = play(experiment, strict, poisoned(assembly, [bad]))
    for row in played.rows:
        assert row["set_aside"] == {str(bad): NAN} and row["cohort"] == [bad, *good]
    assert played.engine.private(bad) == {}
    assert all(torch.isfinite(value).all() for value in played.server.values() if isinstance(value, torch.Tensor))
    summary = summarize(experiment, played.assembly.method, played.rows, played.new.figures, 1.0).model_dump()
    assert summary["set_aside"] == 2
    assert 0 <= summary["personal"]["weighted"]["personal_models"] <= 1


def test_the_round_goes_on_as_if_the_diverged_client_had_not_been_drawn() -> None:
    experiment = tiny("fedavg", rounds={"count": 1, "cohort": 1.0})
    assembly = poisoned(assemble(experiment), [assemble(experiment).federation.training_ids[0]])
    good = assembly.federation.training_ids[1:]
    played = play(experiment, assembly=assembly)
    method, fresh = assembly.method, assembly.method.start()
    outcomes = [assembly.workplace.perform(Task("train", i, 1, method.broadcast(fresh, i)), {}) for i in good]
    expected = method.aggregate(fresh, {o.client_id: o.reply for o in outcomes})
    assert played.server.keys() == {*expected, "round"}  # scaled to the others' samples: equal up to rounding
    assert torch.allclose(played.server["w"], expected["w"], atol=1e-6)


@pytest.mark.parametrize("method", ["fedavg", "scaffold", "feddyn"])
def test_if_all_diverge_the_server_keeps_its_state(method: str) -> None:
    experiment = tiny(method, rounds={"count": 2, "cohort": 1.0})
    assembly = assemble(experiment)
    ids = assembly.federation.training_ids
    played = play(experiment, assembly=poisoned(assembly, ids))
    assert encode(played.server) == encode(assembly.method.start() | {"round": 2})
    assert [len(row["set_aside"]) for row in played.rows] == [4, 4]
    assert [row["bytes_up"] for row in played.rows] == [0, 0]
    assert summarize(experiment, played.assembly.method, played.rows, played.new.figures, 1.0).set_aside == 8


def test_a_client_whose_personal_model_diverges_has_nothing_right_and_counts() -> None:
    experiment = tiny("fedavg+ft", rounds={"count": 1, "cohort": 1.0})
    assembly = assemble(experiment)
    bad = assembly.federation.training_ids[0]
    played = play(experiment, assembly=poisoned(assembly, [bad]))
    rows = {row["client"]: row for row in played.clients}
    assert (rows[bad]["personal.weighted.accuracy"], rows[bad]["personal.diverged"]) == (0.0, True)
    assert rows[bad]["generic.weighted.accuracy"] > 0
    everybody = [row["personal.weighted.accuracy"] for row in rows.values()]
    assert sum(score == 0 for score in everybody) == 1
    assert played.rows[0]["personal.weighted.accuracy.mean"] == pytest.approx(sum(everybody) / len(everybody))
    summary = summarize(experiment, played.assembly.method, played.rows, played.new.figures, 1.0).model_dump()
    assert summary["diverged"] == {"personal_models": 1, "new_clients": 0}


# ---------------------------------------------------------------- what the server learns


class Backwards(Inline):
    """Answers in another order than it was asked."""

    def run(self, tasks: Sequence[Task]) -> list[Outcome]:
        return list(reversed(list(super().run(tasks))))


def test_replies_are_summed_in_the_order_of_client_ids_whatever_the_engine_does() -> None:
    experiment = tiny("scaffold", rounds={"cohort": 1.0})
    plain, assembly = play(experiment), assemble(experiment)
    seen = []
    aggregate = assembly.method.aggregate
    assembly.method.aggregate = lambda server, replies: (seen.append(list(replies)), aggregate(server, replies))[1]
    assembly.engine = Backwards(assembly.workplace)
    progress = RoundLoop(assembly, Notes()).run(RunState(0, assembly.method.start()))
    assert seen == [assembly.federation.training_ids] * 3
    assert encode(progress.server) == encode(plain.server)


# ---------------------------------------------------------------- what cannot be run


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"scoring": {"report": "best_on_validation"}, "data": {"val_share": 0.0}},
            "scoring.report is 'best_on_validation' but data.val_share is 0; accepted: a val_share above 0",
        ),
        (
            {"scoring": {"test": "split"}, "data": {"test_share": 0.0}},
            "scoring.test is 'split' but data.test_share is 0; accepted: a test_share above 0",
        ),
    ],
)
def test_contradictions_are_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(MotetError) as error:
        assemble(tiny("fedavg", **changes))
    assert str(error.value) == sentence


def test_an_unknown_engine_device_or_head_is_refused() -> None:
    with pytest.raises(MotetError, match=r"^unknown engine \(engine.name\) 'inlin': did you mean 'inline'\?"):
        assemble(tiny("fedavg", engine={"name": "inlin"}))
    with pytest.raises(MotetError, match=r"^device is 'abacus' \(.*\); accepted: cpu, or a device torch has here$"):
        assemble(tiny("fedavg", device="abacus"))
    with pytest.raises(MotetError, match=r"^unknown head stage \(net.head\) 'fc9'"):
        assemble(tiny("fedavg", net={"head": "fc9"}))


# ---------------------------------------------------------------- scoring costs no more than it must


def test_clients_own_test_data_give_the_generic_accuracy_without_another_pass() -> None:
    own = {"pool": "all", "test_share": 0.25, "new_clients": 0.0}
    often, seldom = (
        play(tiny("fedavg", data=own, scoring={"every": 1, "common_test": when})) for when in ("always", "last")
    )
    name = "generic.common.accuracy.pooled"
    assert [row[name] for row in often.rows] == [row[name] for row in seldom.rows]
    assert all(row["generic.weighted.accuracy.mean"] is not None for row in often.rows)
    assert [row["generic.weighted.accuracy.mean"] is None for row in seldom.rows] == [True, True, False]


def test_test_data_of_new_clients_are_part_of_the_generic_accuracy() -> None:
    own = {"pool": "all", "test_share": 0.25, "new_clients": 0.2}
    often, seldom = (
        play(tiny("fedavg", data=own, scoring={"every": 1, "common_test": when})) for when in ("always", "last")
    )
    name = "generic.common.accuracy.pooled"
    assert [row[name] for row in often.rows] == [row[name] for row in seldom.rows]


@pytest.mark.parametrize("method", ["pgfed", "scaffold", "fedavg+dbe", "fedrod+pgfed"])
def test_what_only_training_needs_is_not_sent_to_be_scored(method: str) -> None:
    played = play(tiny(method), strict=True)
    told = {
        kind: {n for e in played.engine.exchanges if e.task.kind == kind for n in e.task.build_message()}
        for kind in KINDS
    }
    extra = {name for name in told["train"] if name.partition(".")[0] in ("pgfed", "scaffold", "mr")}
    assert extra and not extra & told["score"]


KINDS = ("train", "score")


def test_a_model_is_not_sent_twice_to_be_scored() -> None:
    """FedAvg's generic model is the w of its message; what fedrod adds to the net makes them two."""
    plain, extended = (play(tiny(method), strict=True) for method in ("fedavg", "fedrod"))
    for e in (e for e in plain.engine.exchanges if e.task.kind == "score"):
        assert "score.generic" not in e.task.build_message() and e.task.build_message()["score.generic_is_w"]
        assert len(e.sent) < 1.2 * byte_count({"w": plain.server["w"]})
    assert all("score.generic" in e.task.build_message() for e in extended.engine.exchanges if e.task.kind == "score")
