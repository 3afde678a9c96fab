"""`motet compare`: find which method to take on some data, and how certain that is.

Every method is tuned by the same number of trials on validation data; then each runs over the seeds with the setting
that was chosen for it. Only these last runs are scored on test data. The report draws the page.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from pydantic import ValidationError

from motet.config.experiment import Experiment, write
from motet.errors import MotetError
from motet.io.json_models import damaged
from motet.metrics.statistics import CONTROL
from motet.runs.record import Record
from motet.studies.budget import Plan, planned, remember, remembered
from motet.studies.comparison import judged
from motet.studies.comparison_file import FILE, FORMAT, ComparisonFile
from motet.studies.folder import AskedFile, opened, write_file
from motet.studies.job import Job
from motet.studies.results import read_results
from motet.studies.schedule import StudyWatcher, Workflow, sharing_data, work_off
from motet.studies.space import first_setting, space_of, with_setting
from motet.studies.study_methods import StudyMethod, StudyMethods, prepare_methods
from motet.studies.tune import LookOn, chosen, tune_all, tuning_rounds
from motet.studies.tuning import Tuned, rungs, validating

RECOMMENDED = "recommended.toml"
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
    """What a comparison is asked to do."""

    experiment: Experiment
    methods: tuple[str, ...]
    trials: int
    seeds: int
    seconds: float | None = None  # None: no limit

    @property
    def file(self) -> AskedFile:
        """Return what asked.json holds."""
        request: dict[str, Any] = {
            "experiment": self.experiment.model_dump(mode="json", exclude={"engine", "checkpoint"}),
            "methods": list(self.methods),
            "trials": self.trials,
            "seeds": self.seeds,
            "seconds": self.seconds,
        }
        return AskedFile(study="compare", format=FORMAT, request=request)


def compare_methods(asked: CompareRequest, folder: Path, jobs: int, look_on: LookOn) -> ComparisonFile:
    """Tune and run all methods and compare them; write comparison.json and recommended.toml, and return the former."""
    with sharing_data(jobs):
        return _compared(asked, folder, jobs, look_on)


def _compared(asked: CompareRequest, folder: Path, jobs: int, look_on: LookOn) -> ComparisonFile:
    study = prepare_methods(asked.methods, asked.experiment)
    if not study.tested:
        share = asked.experiment.data.test_share
        raise MotetError(
            f"data.test_share is {share:g}, of which no client has a sample to compare methods by; accepted: a larger "
            f"share, or clients with more data"
        )
    with opened(folder, asked.file):
        with look_on(_rounds(study, asked.trials, asked.seeds)) as progress:
            plan = _plan(asked, study, folder, jobs, progress)
            study = _without(study, plan.left_out)
            progress.expect(_rounds(study, plan.trials, plan.seeds))
            tuned = tune_all(study, plan.trials, folder / "tuning", jobs, progress)
            study = _without(study, {name: found.failure for name, found in tuned.items() if found.failure})
            finals = _finals(study, tuned, plan.seeds, folder)
            failed = work_off({name: _run(each) for name, each in finals.items()}, jobs, progress)
        study = _without(study, {name: why for name, why in failed.items() if why})
        folders = {each.name: [job.folder for job in finals[each.name]] for each in study.methods}
        try:
            result = judged(read_results(folders), study, tuned, plan, folder)
        except ValidationError as error:  # a record was changed by hand
            raise damaged(error, f"a record in {folder / 'runs'}") from None
        write_file(folder / FILE, result)
        write(finals[result.recommended.method][0].experiment, folder / RECOMMENDED)
    return result


# ------------------------------------------------------------ steps of a comparison


def _rounds(study: StudyMethods, trials: int, seeds: int) -> int:
    """Return how many rounds all methods take, in tuning and in the last runs."""
    finals = sum(each.experiment.rounds.last for each in study.methods)
    return tuning_rounds(study, trials) + seeds * finals


def _plan(asked: CompareRequest, study: StudyMethods, folder: Path, jobs: int, progress: StudyWatcher) -> Plan:
    """Return the plan as asked for, or what fits into the time.

    For the latter every method's first trial begins, to measure how long a round takes.
    """
    everything = Plan(trials=asked.trials, seeds=asked.seeds)
    if asked.seconds is None:
        return everything
    if before := remembered(folder, everything):
        return before
    first = {each.name: _first_rounds(each, folder) for each in study.methods}
    failed = work_off({name: _run([job]) for name, job in first.items()}, jobs, progress)
    left_out = {name: why for name, why in failed.items() if why}
    per_round = {
        name: fmean(row["seconds"] for row in Record(job.folder).rounds[: job.rounds])
        for name, job in first.items()
        if name not in left_out
    }
    count = study.methods[0].experiment.rounds.last
    plan = planned(everything.model_copy(update={"left_out": left_out}), per_round, count, jobs, asked.seconds)
    remember(folder, plan)
    return plan


def _first_rounds(method: StudyMethod, folder: Path) -> Job:
    """Return the job of the first trial up to the first rung, from where the tuner continues it."""
    experiment = validating(method.experiment)
    experiment = with_setting(experiment, first_setting(space_of(experiment.method), experiment))
    until = rungs(experiment.rounds.last)[0]
    return Job(f"{method.name}, trial 1", folder / "tuning" / method.folder / "trial-0", experiment, until)


def _finals(study: StudyMethods, tuned: Mapping[str, Tuned], seeds: int, folder: Path) -> dict[str, list[Job]]:
    """Return the last runs, one per method and seed, all on the same partition of the data."""
    finals: dict[str, list[Job]] = {}
    for each in study.methods:
        experiment = chosen(each, tuned[each.name])
        finals[each.name] = []
        for seed in range(experiment.seed, experiment.seed + seeds):
            seeded = experiment.with_({"seed": seed})
            path = folder / "runs" / f"{each.folder}-seed{seed}"
            finals[each.name].append(Job(f"{each.name}, seed {seed}", path, seeded))
    return finals


def _run(jobs: Sequence[Job]) -> Workflow[str | None]:
    """Run jobs, and return the sentence of the first that failed."""
    failures = yield jobs
    return next(iter(failures.values()), None)


def _without(study: StudyMethods, left_out: Mapping[str, str | None]) -> StudyMethods:
    reasons = {name: why for name, why in left_out.items() if why}
    if not reasons:
        return study
    left = tuple(each for each in study.methods if each.name not in reasons)
    if not left:
        raise MotetError(f"no method could run: {next(iter(reasons.values()))}")
    return replace(study, methods=left, left_out={**study.left_out, **reasons})
