"""`--time`: plan what fits into so many seconds, from the time that the first rounds of every method took.

To save time, first every method gets fewer trials, then there are fewer seeds, then fewer splits, then methods are left
out, the costliest first, but never the baselines. A note names each step. The plan is written once, so that a study
that was stopped continues as planned.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field

from motet.config.experiment import Experiment
from motet.errors import MotetError
from motet.io.json_models import FileModel
from motet.metrics.statistics import CONTROL
from motet.metrics.wording import duration
from motet.studies.folder import Name, Sentence, read_file, write_file
from motet.studies.tuning import ends_by_itself, first_rung, halves, rounds_of

FEWEST_TRIALS, FEWEST_SEEDS = 2, 2
MOST_TRIALS, MOST_SEEDS = 10_000, 1000
BASELINES = ("local", "fedavg", CONTROL)
SLACK = 1.3
"""Later rounds can cost more than the first ones, and the last runs are scored on test data too."""

EXPECTED = 0.5
"""The share of their cap after which rounds that end by themselves have usually ended."""

FILE = "plan.json"


class Plan(FileModel):
    """plan.json: how many trials, seeds and methods there will be, and what is left out to save time."""

    trials: Annotated[int, Field(ge=1, le=MOST_TRIALS)]
    seeds: Annotated[int, Field(ge=1, le=MOST_SEEDS)]
    repeats: Annotated[int, Field(ge=1, le=MOST_SEEDS)] = 1
    left_out: dict[Name, Sentence] = Field(default_factory=dict)
    notes: tuple[Sentence, ...] = ()


def planned(asked: Plan, per_round: Mapping[str, float], experiment: Experiment, jobs: int, seconds: float) -> Plan:
    """Return the largest plan that fits into so many seconds, given the seconds that a round of each method takes."""
    trials, seeds, repeats, left = asked.trials, asked.seeds, asked.repeats, dict(per_round)
    auto = ends_by_itself(experiment)
    rounds = round(experiment.rounds.last * (EXPECTED if auto else 1))
    first = (min(first_rung(experiment, 0), rounds) if halves(experiment) else rounds) if auto else 0

    def cost() -> float:
        each = repeats * (rounds_of(trials, rounds, first) + seeds * rounds)
        return SLACK * each * sum(left.values()) / min(jobs, max(1, len(left)))

    notes, left_out = [], dict(asked.left_out)
    needed = cost()
    while cost() > seconds and trials > FEWEST_TRIALS:
        trials -= 1
    while cost() > seconds and seeds > FEWEST_SEEDS:
        seeds -= 1
    while cost() > seconds and repeats > FEWEST_SEEDS:
        repeats -= 1
    while cost() > seconds and (more := [name for name in left if name not in BASELINES]):
        costliest = max(more, key=lambda name: left[name])
        left_out[costliest] = f"a round of it takes {left.pop(costliest):.2g} s, for which there is no time"
    if needed > seconds:
        notes.append(
            f"All that was asked for would take about {duration(needed)}; to fit into {duration(seconds)}, "
            f"{_said(asked, trials, seeds, repeats)}."
        )
    if cost() > seconds:
        notes.append(f"Even so it takes about {duration(cost())}: nothing more can be left out.")
    return Plan(trials=trials, seeds=seeds, repeats=repeats, left_out=left_out, notes=tuple(notes))


def remembered(folder: Path, asked: Plan) -> Plan | None:
    """Return the plan of a study that was begun before, limited to what is asked for now; None if there is none."""
    path = folder / FILE
    if not path.exists():
        return None
    found = read_file(path, Plan)
    for name, most in (("trials", asked.trials), ("seeds", asked.seeds), ("repeats", asked.repeats)):
        if getattr(found, name) > most:
            raise MotetError(
                f"{path} is damaged: {name} is {getattr(found, name)}; accepted: up to the {most} asked for"
            )
    return found


def remember(folder: Path, plan: Plan) -> None:
    """Write the plan into the study's folder."""
    write_file(folder / FILE, plan)


def _said(asked: Plan, trials: int, seeds: int, repeats: int) -> str:
    changes = []
    if trials < asked.trials:
        changes.append(f"every method has {trials} trials instead of {asked.trials}")
    if seeds < asked.seeds:
        changes.append(f"{seeds} seeds instead of {asked.seeds}")
    if repeats < asked.repeats:
        changes.append(f"{repeats} splits instead of {asked.repeats}")
    return ", ".join(changes) or "methods are left out"
