"""`--time`: what fits into so many seconds, told by the first rounds of every method.

Less is done in a fixed order, and each step is said: fewer trials, alike for all methods; then fewer seeds; then
methods are left out, the costliest first, but never the baselines that everything is compared with. The plan is
written down once, so that a study that was stopped goes on as planned.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from motet.report.study_progress import duration
from motet.statistics import CONTROL
from motet.studies.folder import read_json, write_json
from motet.studies.tuning import rounds_of

FEWEST_TRIALS, FEWEST_SEEDS = 2, 2
BASELINES = ("local", "fedavg", CONTROL)
SLACK = 1.3
"""Later rounds can cost more than the first ones, and the last runs are scored on test data too."""

FILE = "plan.json"


@dataclass(frozen=True)
class Plan:
    """What is done in the end, and what was changed for want of time."""

    trials: int
    seeds: int
    left_out: dict[str, str]
    notes: tuple[str, ...] = ()


def planned(asked: Plan, per_round: Mapping[str, float], rounds: int, jobs: int, seconds: float) -> Plan:
    """The largest plan that fits, by the seconds that a round of each method takes."""
    trials, seeds, left = asked.trials, asked.seeds, dict(per_round)

    def cost() -> float:
        each = rounds_of(trials, rounds) + seeds * rounds
        return SLACK * each * sum(left.values()) / min(jobs, max(1, len(left)))

    notes, left_out = [], dict(asked.left_out)
    needed = cost()
    while cost() > seconds and trials > FEWEST_TRIALS:
        trials -= 1
    while cost() > seconds and seeds > FEWEST_SEEDS:
        seeds -= 1
    while cost() > seconds and (more := [name for name in left if name not in BASELINES]):
        costliest = max(more, key=lambda name: left[name])
        left_out[costliest] = f"a round of it takes {left.pop(costliest):.2g} s, for which there is no time"
    if needed > seconds:
        notes.append(
            f"All that was asked for would take about {duration(needed)}; to fit into {duration(seconds)}, "
            f"{_said(asked, trials, seeds)}."
        )
    if cost() > seconds:
        notes.append(f"Even so it takes about {duration(cost())}: nothing more can be left out.")
    return Plan(trials, seeds, left_out, tuple(notes))


def remembered(folder: Path) -> Plan | None:
    """The plan of a study that was begun before."""
    if not (folder / FILE).exists():
        return None
    found = read_json(folder / FILE)
    return Plan(int(found["trials"]), int(found["seeds"]), dict(found["left_out"]), tuple(found["notes"]))


def remember(folder: Path, plan: Plan) -> None:
    """Write the plan down."""
    write_json(folder / FILE, asdict(plan))


def _said(asked: Plan, trials: int, seeds: int) -> str:
    changes = []
    if trials < asked.trials:
        changes.append(f"every method has {trials} trials instead of {asked.trials}")
    if seeds < asked.seeds:
        changes.append(f"{seeds} seeds instead of {asked.seeds}")
    return ", ".join(changes) or "methods are left out"
