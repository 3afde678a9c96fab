"""Runs that differ in the seed alone are one line: mean and standard deviation over seeds, and what may be chance."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from motet.config.experiment import Experiment
from motet.io.text import printable
from motet.metrics.statistics import CONTROL, Differences, Table, apart, corrected, differences
from motet.report.finished import Finished
from motet.runs.failures import counted_warnings


@dataclass(frozen=True)
class TableLine:
    """One line of a table: a run, or several that differ in the seed alone."""

    runs: tuple[Finished, ...]

    @property
    def first(self) -> Finished:
        """Return the run that stands for all in what they have in common."""
        return self.runs[0]

    @property
    def plain_method(self) -> str:
        """Return the method without its options."""
        return re.sub(r"\([^()]*\)", "", self.first.experiment.method)

    @property
    def seeds(self) -> tuple[int, ...]:
        """Return the seeds of its runs."""
        return tuple(run.experiment.seed for run in self.runs)

    def warnings(self) -> list[str]:
        """Return the warnings of its runs, each sentence once, and how many runs have it where not all do."""
        return list(map(printable, counted_warnings([run.summary.warnings for run in self.runs])))

    def headline(self) -> dict[int, float]:
        """Return the headline figure of each seed that has one."""
        found = {run.experiment.seed: run.headline.of(run.summary.figures) for run in self.runs}
        return {seed: value for seed, value in found.items() if value is not None}


def by_seed(runs: Sequence[Finished]) -> list[TableLine]:
    """Return the lines in the order of their first runs; one experiment with one seed twice makes two lines."""
    lines: dict[str, list[Finished]] = {}
    shared = _partition_seeds(runs)
    for run in runs:
        key, copy = _key(run.experiment, shared), 1
        while any(other.experiment.seed == run.experiment.seed for other in lines.get(f"{key} {copy}", [])):
            copy += 1
        lines.setdefault(f"{key} {copy}", []).append(run)
    return [TableLine(tuple(sorted(each, key=lambda run: run.experiment.seed))) for each in lines.values()]


def differences_of(lines: Sequence[TableLine]) -> Differences:
    """Return what differs by more than chance among comparable lines, by their places in the list.

    Over the clients and seeds that all lines have; where every seed deals other clients, over seeds alone; where lines
    have no seed in common, nothing is paired.
    """
    control = next((str(i) for i, line in enumerate(lines) if line.plain_method == CONTROL), "")
    if tables := _tables(lines):
        return differences({str(i): table for i, table in enumerate(tables)}, control)
    values = {str(i): list(line.headline().values()) for i, line in enumerate(lines)}
    return corrected({(a, b): apart(values[a], values[b]) for a, b in combinations(values, 2)}, control)


def _tables(lines: Sequence[TableLine]) -> list[Table]:
    """Return a table of clients and seeds for each line; none if the lines have no seed in common."""
    seeds = sorted(set.intersection(*(set(line.headline()) for line in lines)))
    runs = [[next(run for run in line.runs if run.experiment.seed == seed) for seed in seeds] for line in lines]
    every = [run for each in runs for run in each]
    if not every:
        return []
    clients = sorted(set.intersection(*(set(run.by_client) for run in every))) if _same_clients(every) else []
    if not clients:
        return [np.array([[line.headline()[seed] for seed in seeds]]) for line in lines]
    return [np.array([[run.by_client[client] for run in each] for client in clients]) for each in runs]


def _same_clients(runs: Sequence[Finished]) -> bool:
    """Return whether a client id means the same client in all runs, and all clients have the same weight."""
    data = [run.experiment.data for run in runs]
    if any(run.summary.reported.client_weighting != "uniform" for run in runs):
        return False
    return len({each.partition_seed for each in data}) == 1 or all(each.partition == "natural" for each in data)


def _key(experiment: Experiment, shared: set[str]) -> str:
    """Return what makes runs one line: all settings but the seed, the engine and the checkpoints."""
    chosen = _choices(experiment)
    follows = chosen["data"]["partition_seed"] == experiment.seed and _rest(experiment) not in shared
    return repr((_rest(experiment), None if follows else chosen["data"]["partition_seed"]))


def _partition_seeds(runs: Sequence[Finished]) -> set[str]:
    """Return the experiments whose partition did not follow the seed; in the run of seed 0 the two are equal by
    chance."""
    return {_rest(e) for run in runs if (e := run.experiment).data.partition_seed != e.seed}


def _rest(experiment: Experiment) -> str:
    chosen = _choices(experiment)
    chosen["data"] = {k: v for k, v in chosen["data"].items() if k != "partition_seed"}
    return repr(chosen)


def _choices(experiment: Experiment) -> dict[str, Any]:
    return experiment.model_dump(exclude={"seed": True, "engine": True, "checkpoint": True, "data": {"download": True}})
