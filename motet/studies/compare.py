"""`motet compare`: which method, on these data, and how sure we are.

Every method is tuned by the same number of trials on validation data; then each runs over the seeds with what was
chosen for it. Test data are scored in these last runs alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from motet.config.experiment import Experiment, resolve, write
from motet.config.nesting import merge
from motet.errors import MotetError
from motet.metrics.statistics import CONTROL
from motet.report.page import write_report
from motet.runs.record import Record
from motet.studies.budget import Plan, planned, remember, remembered
from motet.studies.comparison import FORMAT, judged
from motet.studies.contestants import Contest, Contestant, enter
from motet.studies.folder import opened, write_json
from motet.studies.job import Job
from motet.studies.results import read_results
from motet.studies.schedule import StudyWatcher, Workflow, work_off
from motet.studies.space import first_setting, space_of, with_setting
from motet.studies.tune import LookOn, chosen, tune_all, tuning_rounds
from motet.studies.tuning import Tuned, rungs, validating

FILE = "comparison.json"
SHORTLIST = (
    "local",
    "fedavg",
    CONTROL,
    "fedper",
    "ditto",
    "fedrod",
    "pgfed",
    "fedbasis",
    "superfed-mm",
    "fedavg+dbe",
)


@dataclass(frozen=True)
class CompareRequest:
    """What a comparison is asked for."""

    experiment: Experiment
    methods: tuple[str, ...]
    trials: int
    seeds: int
    seconds: float | None = None  # None: as long as it takes

    def as_json(self) -> dict[str, Any]:
        """For the folder."""
        return {
            "study": "compare",
            "format": FORMAT,
            "experiment": self.experiment.model_dump(exclude={"engine", "checkpoint"}),
            "methods": list(self.methods),
            "trials": self.trials,
            "seeds": self.seeds,
            "seconds": self.seconds,
        }


def compare_methods(asked: CompareRequest, folder: Path, jobs: int, look_on: LookOn) -> dict[str, Any]:
    """Tune, run, judge; the folder gets comparison.json, recommended.toml and report.html."""
    field = enter(asked.methods, asked.experiment)
    if not field.tested:
        share = asked.experiment.data.test_share
        raise MotetError(
            f"data.test_share is {share:g}, of which no client has a sample to compare methods by; accepted: a larger "
            f"share, or clients with more data"
        )
    with opened(folder, asked.as_json()):
        with look_on(_rounds(field, asked.trials, asked.seeds)) as progress:
            plan = _plan(asked, field, folder, jobs, progress)
            field = _without(field, plan.left_out)
            progress.expect(_rounds(field, plan.trials, plan.seeds))
            tuned = tune_all(field, plan.trials, folder / "tuning", jobs, progress)
            field = _without(field, {name: found.failure for name, found in tuned.items() if found.failure})
            finals = _finals(field, tuned, plan.seeds, folder)
            failed = work_off({name: _run(each) for name, each in finals.items()}, jobs, progress)
        field = _without(field, {name: why for name, why in failed.items() if why})
        folders = {each.name: [job.folder for job in finals[each.name]] for each in field.contestants}
        result = judged(read_results(folders), field, tuned, plan, folder)
        result["notes"] = [*result["notes"], *field.said_of_the_data()]
        write_json(folder / FILE, result)
        best = next(each for each in field.contestants if each.name == result["recommended"]["method"])
        write(finals[best.name][0].experiment, folder / "recommended.toml")
        result["report"] = str(write_report([folder], folder / "report.html"))
    return result


# ------------------------------------------------------------ the work


def _rounds(field: Contest, trials: int, seeds: int) -> int:
    """How many all methods take, tuning and last runs."""
    finals = sum(each.experiment.rounds.count for each in field.contestants)
    return tuning_rounds(field, trials) + seeds * finals


def _plan(asked: CompareRequest, field: Contest, folder: Path, jobs: int, progress: StudyWatcher) -> Plan:
    """As asked for, or what fits into the time: then every method's first trial begins, to see what a round takes."""
    everything = Plan(asked.trials, asked.seeds, {})
    if asked.seconds is None:
        return everything
    if before := remembered(folder, everything):
        return before
    first = {each.name: _first_rounds(each, folder) for each in field.contestants}
    failed = work_off({name: _run([job]) for name, job in first.items()}, jobs, progress)
    left_out = {name: why for name, why in failed.items() if why}
    per_round = {
        name: fmean(row["seconds"] for row in Record(job.folder).rounds[: job.rounds])
        for name, job in first.items()
        if name not in left_out
    }
    count = field.contestants[0].experiment.rounds.count
    plan = planned(replace(everything, left_out=left_out), per_round, count, jobs, asked.seconds)
    remember(folder, plan)
    return plan


def _first_rounds(contestant: Contestant, folder: Path) -> Job:
    """The first trial's, up to where trials are compared first: the tuner goes on from there."""
    experiment = validating(contestant.experiment)
    experiment = with_setting(experiment, first_setting(space_of(experiment.method), experiment))
    until = rungs(experiment.rounds.count)[0]
    return Job(f"{contestant.name}, trial 1", folder / "tuning" / contestant.folder / "trial-0", experiment, until)


def _finals(field: Contest, tuned: Mapping[str, Tuned], seeds: int, folder: Path) -> dict[str, list[Job]]:
    """The last runs, one per method and seed, all on one dealing of the data."""
    finals: dict[str, list[Job]] = {}
    for each in field.contestants:
        experiment = chosen(each, tuned[each.name])
        finals[each.name] = []
        for seed in range(experiment.seed, experiment.seed + seeds):
            seeded = resolve(merge(experiment.model_dump(), {"seed": seed}))
            path = folder / "runs" / f"{each.folder}-seed{seed}"
            finals[each.name].append(Job(f"{each.name}, seed {seed}", path, seeded))
    return finals


def _run(jobs: Sequence[Job]) -> Workflow[str | None]:
    """Do jobs; the sentence of the first that failed."""
    failures = yield jobs
    return next(iter(failures.values()), None)


def _without(field: Contest, left_out: Mapping[str, str | None]) -> Contest:
    reasons = {name: why for name, why in left_out.items() if why}
    if not reasons:
        return field
    left = tuple(each for each in field.contestants if each.name not in reasons)
    if not left:
        raise MotetError(f"no method could run: {next(iter(reasons.values()))}")
    return replace(field, contestants=left, left_out={**field.left_out, **reasons})
