"""The server looks at every reply before a method sees it: nonsense is set aside by name, the others go on."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch

from motet.engines import Inline
from motet.messages.checks import unusable, well_formed
from motet.messages.message import Message, encode
from motet.messages.task import Outcome, Task
from motet.server.assembly import assemble
from motet.server.round_loop import RoundLoop, RunState
from motet.testing.twin import Notes, play, tiny


def good(value: float = 1.0) -> Message:
    return {"w": torch.full((5,), value), "n": 3, "loss": 0.5}


WRONG: list[tuple[Message, str]] = [
    ({"w": torch.zeros(3)}, "reply field 'w' has shape (3,); accepted: (5,)"),
    ({"w": torch.zeros(5, 1)}, "reply field 'w' has shape (5, 1); accepted: (5,)"),
    ({"w": torch.zeros(5).double()}, "reply field 'w' has type torch.float64; accepted: torch.float32"),
    ({"w": 1.0}, "reply field 'w' is a number; accepted: a tensor"),
    ({"n": torch.ones(5)}, "reply field 'n' is a tensor; accepted: a number"),
    ({"w": torch.tensor([0, 1, torch.inf, 2, 3])}, "reply field 'w' holds NaN or infinity; accepted: finite numbers"),
    ({"loss": float("nan")}, "reply field 'loss' holds NaN or infinity; accepted: finite numbers"),
    ({"n": 0}, "reply field 'n' is 0; accepted: a number of samples above 0"),
    ({"n": -4}, "reply field 'n' is -4; accepted: a number of samples above 0"),
    ({"evil": 1}, "reply field 'evil' is not known; accepted: loss, n, w"),
]


@pytest.mark.parametrize(("change", "sentence"), WRONG)
def test_a_reply_unlike_the_others_is_set_aside_with_a_sentence(change: Message, sentence: str) -> None:
    replies = {1: good(), 4: good() | change, 7: good(2.0)}
    passed, reasons = well_formed(replies)
    assert reasons == {4: sentence}
    assert list(passed) == [1, 7] and passed[7] is replies[7]


def test_a_missing_field_is_named() -> None:
    incomplete = good()
    del incomplete["n"]
    assert well_formed({1: good(), 2: incomplete, 3: good()})[1] == {
        2: "reply field 'n' is missing; accepted: loss, n, w"
    }


def test_the_servers_own_form_outvotes_a_majority_of_liars() -> None:
    liars = {i: good() | {"w": torch.zeros(3)} for i in (1, 2)}
    passed, reasons = well_formed({**liars, 3: good()}, like={"w": torch.zeros(5)})
    assert list(passed) == [3] and set(reasons) == {1, 2}
    passed, _ = well_formed({**liars, 3: good()})
    assert list(passed) == [1, 2]  # nobody told what is right


def test_declared_fields_outvote_a_majority_too_and_what_is_each_clients_own_may_differ() -> None:
    declared = {"w": "mean", "n": "sum", "loss": "mean", "own": "each"}
    evil = {i: good() | {"evil": 1} for i in (1, 2)}
    passed, reasons = well_formed({**evil, 3: good(), 4: good() | {"own": torch.zeros(9)}}, declared)
    assert list(passed) == [3, 4]
    assert reasons[1] == "reply field 'evil' is not known; accepted: loss, n, own, w"


def test_nobody_and_replies_that_say_nothing_are_fine() -> None:
    assert well_formed({}) == ({}, {})
    assert well_formed({1: {}, 2: {}}) == ({1: {}, 2: {}}, {})


def test_only_answers_to_what_was_asked_count() -> None:
    def answered(client_id: int, kind: str = "train", round: int = 3) -> Outcome:
        return Task(kind, client_id, round, {}).answered(good())  # type: ignore[arg-type]

    asked, waiting, reasons = [1, 2, 3, 4, 5, 6], {1, 2, 3, 4, 5, 6}, {}
    outcomes = [answered(9), answered(5), answered(1, round=2), answered(2, "score"), answered(3), answered(3)]
    outcomes.append(Task("train", 6, 3, {}).failed("diverged"))
    for outcome in outcomes:
        reasons[outcome.client_id] = unusable(outcome, "train", 3, waiting, asked)
        waiting.discard(outcome.client_id)
    assert waiting == {4}
    assert reasons == {
        1: "answered train of round 2; accepted: train of round 3",
        2: "answered score of round 3; accepted: train of round 3",
        3: "answered more than once; its first answer counts",
        5: None,
        6: "diverged",
        9: "answered unasked",
    }


# ---------------------------------------------------------------- in a run


class Lying(Inline):
    """One client's outcomes are changed on their way to the server."""

    liar = -9
    lie: Callable[[Outcome], Outcome] = staticmethod(lambda outcome: outcome)

    def run(self, tasks: Sequence[Task]) -> list[Outcome]:
        return [self.lie(o) if o.client_id == self.liar else o for o in list(super().run(tasks))]


def shortened(outcome: Outcome) -> Outcome:
    if outcome.kind != "train":
        return outcome
    assert outcome.reply is not None
    w = outcome.reply["w"]
    assert isinstance(w, torch.Tensor)
    return replace(outcome, reply=outcome.reply | {"w": w[:-1]})


def replayed(outcome: Outcome) -> Outcome:
    return replace(outcome, round=outcome.round - 1) if outcome.kind == "train" else outcome


@pytest.mark.parametrize(
    ("lie", "sentence"),
    [(shortened, "reply field 'w' has shape"), (replayed, "answered train of round 0; accepted: train of round 1")],
)
@pytest.mark.parametrize("method", ["fedavg", "scaffold", "fedrod", "superfed-mm"])
def test_a_liar_is_named_and_the_round_goes_on_without_it(
    method: str, lie: Callable[[Outcome], Outcome], sentence: str
) -> None:
    experiment = tiny(method, rounds={"count": 1, "cohort": 1.0})
    assembly, notes = assemble(experiment), Notes()
    engine = assembly.engine = Lying(assembly.workplace)
    engine.liar, engine.lie = assembly.client_ids[1], lie
    server = assembly.method.start()
    progress = RoundLoop(assembly, notes).run(RunState(0, server))
    aside = notes.rows[0]["set_aside"]
    assert (
        isinstance(aside, dict) and list(aside) == [str(engine.liar)] and aside[str(engine.liar)].startswith(sentence)
    )
    assert encode(progress.server) != encode(play(experiment).server)
    tasks = [Task("train", i, 1, assembly.method.broadcast(server, i)) for i in assembly.client_ids if i != engine.liar]
    honest = {o.client_id: o.reply for o in list(Inline(assembly.workplace).run(tasks)) if o.reply is not None}
    alone = assembly.method.aggregate(server, honest) | {"round": 1}
    assert progress.server.keys() == alone.keys()
    for name, value in alone.items():  # what was added up before the liar was found is scaled: equal up to rounding
        assert torch.allclose(torch.as_tensor(progress.server[name]), torch.as_tensor(value), atol=1e-6)
