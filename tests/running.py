"""What the tests of several methods ask of a whole run."""

from pathlib import Path
from typing import Any

import pytest

from motet.errors import MotetError
from motet.methods import build_method
from motet.nets import build_net
from motet.runs.experiment import Experiment
from motet.runs.record import Record
from motet.runs.run import run


def run_twice(asked: Experiment, folder: Path) -> Record:
    """The record of a run that came out the same both times, with scores that are scores."""
    records = [Record(run(asked, folder / name)) for name in "ab"]
    first, second = ([timeless(row) for row in r.rounds + r.clients] for r in records)
    assert first == second
    assert len({(r.folder / "weights.safetensors").read_bytes() for r in records}) == 1
    summary = records[0].summary
    scores = [summary["generic"]["accuracy"], *summary["personal"]["weighted"].values()]
    assert all(0 < score <= 1 for score in [*scores, *summary["new_clients"].values()])
    assert summary["set_aside"] == 0
    return records[0]


def timeless(row: dict[str, Any]) -> dict[str, Any]:
    """A row without its times."""
    return {name: value for name, value in row.items() if not name.endswith("seconds")}


def refusal(method: str) -> str:
    """The sentence with which a method's name is refused."""
    with pytest.raises(MotetError) as caught:
        build_method(method, build_net("mlp", (1, 8, 8), 10))
    return str(caught.value)
