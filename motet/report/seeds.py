"""Runs that differ in the seed alone are one line: mean and standard deviation over seeds, and what may be chance."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev
from typing import Any

from motet.report.finished import Finished
from motet.runs.experiment import Experiment

# The 97.5 % point of Student's distribution for 1, 2, … degrees of freedom; beyond, the normal one is near enough.
_T = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
_MORE = 2.1


@dataclass(frozen=True)
class Line:
    """One line of a table: a run, or several that differ in the seed alone."""

    runs: tuple[Finished, ...]

    @property
    def first(self) -> Finished:
        """That stands for all in what they have in common."""
        return self.runs[0]

    @property
    def seeds(self) -> tuple[int, ...]:
        """Of its runs."""
        return tuple(run.experiment.seed for run in self.runs)

    def headline(self) -> dict[int, float]:
        """The headline by seed, where there is one."""
        found = {run.experiment.seed: run.headline.of(run.summary["figures"]) for run in self.runs}
        return {seed: value for seed, value in found.items() if value is not None}


def by_seed(runs: Sequence[Finished]) -> list[Line]:
    """Lines in the order of their first runs; the same experiment with the same seed twice makes two lines."""
    lines: dict[str, list[Finished]] = {}
    shared = _partition_seeds(runs)
    for run in runs:
        key, copy = _key(run.experiment, shared), 1
        while any(other.experiment.seed == run.experiment.seed for other in lines.get(f"{key} {copy}", [])):
            copy += 1
        lines.setdefault(f"{key} {copy}", []).append(run)
    return [Line(tuple(sorted(each, key=lambda run: run.experiment.seed))) for each in lines.values()]


def within_noise(best: Line, other: Line) -> bool | None:
    """Whether the best line's lead may be chance: the 95 % t-interval of the difference has zero in it.

    Paired over the seeds that both have, else of two independent means; None where there are not two seeds each.
    """
    a, b = best.headline(), other.headline()
    common = sorted(a.keys() & b.keys())
    if len(common) > 1:
        differences = [a[seed] - b[seed] for seed in common]
        return fmean(differences) <= _t(len(common) - 1) * stdev(differences) / sqrt(len(common))
    if min(len(a), len(b)) < 2:
        return None
    error = sqrt(sum(stdev(each.values()) ** 2 / len(each) for each in (a, b)))
    return fmean(a.values()) - fmean(b.values()) <= _t(min(len(a), len(b)) - 1) * error


def _t(freedom: int) -> float:
    return _T[freedom - 1] if freedom <= len(_T) else _MORE


def _key(experiment: Experiment, shared: set[str]) -> str:
    """All choices but the seed, and where and how often saved the work ran."""
    chosen = _choices(experiment)
    follows = chosen["data"]["partition_seed"] == experiment.seed and _rest(experiment) not in shared
    return repr((_rest(experiment), None if follows else chosen["data"]["partition_seed"]))


def _partition_seeds(runs: Sequence[Finished]) -> set[str]:
    """The experiments whose partition did not follow the seed: that it did in the run of seed 0 is chance then."""
    return {_rest(e) for run in runs if (e := run.experiment).data.partition_seed != e.seed}


def _rest(experiment: Experiment) -> str:
    chosen = _choices(experiment)
    chosen["data"] = {k: v for k, v in chosen["data"].items() if k != "partition_seed"}
    return repr(chosen)


def _choices(experiment: Experiment) -> dict[str, Any]:
    return experiment.model_dump(exclude={"seed": True, "engine": True, "checkpoint": True, "data": {"download": True}})
