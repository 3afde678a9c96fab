"""What the tests of several methods ask of a whole run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from by_hand import FACTS
from inputs import input_of

from motet.config.experiment import Experiment
from motet.errors import MotetError
from motet.messages.message import Message, State
from motet.messages.task import Task, TaskKind
from motet.methods import build_method
from motet.nets import build_net
from motet.runs.record import Record
from motet.runs.run import run
from motet.server.assembly import Assembly, assemble

Replies = dict[int, Message]


def run_twice(asked: Experiment, folder: Path) -> Record:
    """The record of a run that came out the same both times, with scores that are scores."""
    records = [Record(run(asked, folder / name)) for name in "ab"]
    first, second = ([timeless(row) for row in r.rounds + r.clients] for r in records)
    assert first == second
    assert len({(r.folder / "weights.safetensors").read_bytes() for r in records}) == 1
    summary = records[0].summary.model_dump()
    scores = [summary["generic"]["accuracy"], *summary["personal"]["weighted"].values()]
    assert all(0 < score <= 1 for score in [*scores, *summary["new_clients"].values()])
    assert summary["set_aside"] == 0
    return records[0]


def timeless(row: dict[str, Any]) -> dict[str, Any]:
    """A row without its times."""
    return {name: value for name, value in row.items() if not name.endswith("seconds")}


def exchange(assembly: Assembly, server: State, cohort: Sequence[int], round: int, kind: TaskKind = "train") -> Replies:
    """What these clients answer."""
    tasks = [Task(kind, i, round, assembly.method.broadcast(server, i)) for i in cohort]
    outcomes = list(assembly.engine.run(tasks))
    assert all(o.reply is not None for o in outcomes)
    return {o.client_id: o.reply for o in outcomes if o.reply is not None}


def after_cohorts(asked: Experiment, cohorts: Sequence[Sequence[int]]) -> tuple[Assembly, list[State]]:
    """The server states after each of these cohorts; the first is the one before round one, after preparation."""
    assembly = assemble(asked)
    states = [assembly.method.start()]
    if assembly.method.prepares:
        replies = exchange(assembly, states[0], assembly.client_ids, 0, "prepare")
        states = [assembly.method.prepared(states[0], replies)]
    for round, cohort in enumerate(cohorts, 1):
        states.append(assembly.method.aggregate(states[-1], exchange(assembly, states[-1], cohort, round)))
    return assembly, states


def refusal(method: str) -> str:
    """The sentence with which a method's name is refused."""
    with pytest.raises(MotetError) as caught:
        build_method(method, build_net("mlp", input_of(1, 8, 8), 10), FACTS)
    return str(caught.value)
