"""Motet through its public path: `run` with its record, its checkpoints and a watcher that waits for "go"."""

import tempfile
from pathlib import Path
from typing import Any

from motet.config.experiment import Experiment, resolve
from motet.config.nesting import merge
from motet.runs.run import run
from throughput_parts.turns import Over, Turns, Unable
from throughput_parts.workloads import Values


class InTurns:
    """Watches a run, and holds it after every round until it is its turn."""

    def __init__(self, turns: Turns):
        self.turns = turns

    def started(self, experiment: Experiment, folder: Path, round: int, warning: str | None) -> None:
        """Before the first round."""
        self.turns.next()

    def round(self, row: dict[str, Any]) -> None:
        """A round is recorded and saved; row 0 is what some methods do once before the first."""
        if row["round"]:
            self.turns.next(training=row["train_seconds"], computing=row["seconds"])


def play(values: Values, turns: Turns, engine: str, precision: str | None = None) -> None:
    """A run that ends when the contest does."""
    if precision and "precision" not in Experiment.model_fields:
        raise Unable("this Motet has no field precision")
    experiment = resolve(merge(values, {"engine": {"name": engine}, "precision": precision}))
    with tempfile.TemporaryDirectory() as folder:
        try:
            run(experiment, Path(folder) / "run", InTurns(turns))
        except Over:
            return
