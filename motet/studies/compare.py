"""`motet compare`: find which method to take on some data, and how certain that is.

Every method is tuned by the same number of trials on validation data; then each runs over the seeds with the setting
that was chosen for it, and learns from the validation rows too unless it needs them. Only these last runs are scored on
test data. With repeats all of this is done on several splits of the same clients' data, each tuned by itself, so that
no test row of a split had a say in it. The report draws the page.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

from pydantic import ValidationError

from motet.config.experiment import Experiment, write
from motet.errors import MotetError
from motet.io.json_models import damaged
from motet.metrics.statistics import CONTROL
from motet.runs.record import Record
from motet.studies.anywhere import usable_anywhere
from motet.studies.budget import Plan, planned, remember, remembered
from motet.studies.comparison import judged
from motet.studies.comparison_file import FILE, FORMAT, ComparisonFile
from motet.studies.folder import AskedFile, opened, write_file
from motet.studies.job import Job
from motet.studies.results import Results, read_results
from motet.studies.schedule import StudyWatcher, Workflow, sharing_data, work_off
from motet.studies.space import Setting, first_setting, space_of, with_setting
from motet.studies.study_methods import StudyMethod, StudyMethods, prepare_methods
from motet.studies.tune import LookOn, chosen, tuning_lines, tuning_rounds
from motet.studies.tuning import Trial, Tuned, best_of, ends_by_itself, first_rung, rungs, validating
from motet.studies.yardsticks import measure_yardsticks

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
    repeats: int = 1
    yardsticks: bool = False
    seconds: float | None = None  # None: no limit

    @property
    def file(self) -> AskedFile:
        """Return what asked.json holds."""
        request: dict[str, Any] = {
            "experiment": self.experiment.model_dump(mode="json", exclude={"engine", "checkpoint"}),
            "methods": list(self.methods),
            "trials": self.trials,
            "seeds": self.seeds,
            "repeats": self.repeats,
            "yardsticks": self.yardsticks,
            "seconds": self.seconds,
        }
        return AskedFile(study="compare", format=FORMAT, request=request)


def compare_methods(asked: CompareRequest, folder: Path, jobs: int, look_on: LookOn) -> ComparisonFile:
    """Tune and run all methods and compare them; write comparison.json and recommended.toml, and return the former."""
    with sharing_data(jobs):
        return _compared(asked, folder, jobs, look_on)


@dataclass(frozen=True)
class Splits:
    """The methods on each split of the data; the first is the one of a comparison without repeats."""

    studies: tuple[StudyMethods, ...]

    @property
    def first(self) -> StudyMethods:
        """Return the methods on the first split."""
        return self.studies[0]

    def suffix(self, split: int) -> str:
        """Return what names of folders have behind them; empty where there is one split."""
        return f"-split{split}" if len(self.studies) > 1 else ""

    def without(self, left_out: Mapping[str, str | None]) -> "Splits":
        """Return the same without some methods, whose reasons are noted."""
        return Splits(tuple(_without(study, left_out) for study in self.studies))

    def until(self, repeats: int) -> "Splits":
        """Return the first so many splits."""
        return Splits(self.studies[:repeats])


def _compared(asked: CompareRequest, folder: Path, jobs: int, look_on: LookOn) -> ComparisonFile:
    splits = _splits(asked)
    if not splits.first.tested:
        share = asked.experiment.data.test_share
        raise MotetError(
            f"data.test_share is {share:g}, of which no client has a sample to compare methods by; accepted: a larger "
            f"share, or clients with more data"
        )
    with opened(folder, asked.file):
        with look_on(_rounds(splits, asked.trials, asked.seeds)) as progress:
            plan = _plan(asked, splits, folder, jobs, progress)
            splits = splits.until(plan.repeats).without(plan.left_out)
            progress.expect(_rounds(splits, plan.trials, plan.seeds))
            tuned = _tuned(splits, plan.trials, folder / "tuning", jobs, progress)
            splits = splits.without({name: failed_tuning(each) for name, each in tuned.items()})
            finals = _finals(splits, tuned, plan.seeds, folder)
            failed = work_off({name: _run(each) for name, each in finals.items()}, jobs, progress)
        splits = splits.without({name: why for name, why in failed.items() if why})
        study = splits.first
        folders = {each.name: [job.folder for job in finals[each.name]] for each in study.methods}
        found = {each.name: combined(tuned[each.name], study.validation_rows) for each in study.methods}
        outside = measure_yardsticks(_outside(splits, plan.seeds)) if asked.yardsticks else None
        try:
            results = without_climb(read_results(folders), found)
            result = judged(results, study, found, plan, folder, outside)
        except ValidationError as error:  # a record was changed by hand
            raise damaged(error, f"a record in {folder / 'runs'}") from None
        write_file(folder / FILE, result)
        best = next(each for each in study.methods if each.name == result.recommended.method)
        write(usable_anywhere(_final(best, found[best.name])), folder / RECOMMENDED)
    return result


# ------------------------------------------------------------ steps of a comparison


def _splits(asked: CompareRequest) -> Splits:
    """Return the methods on each split; one that cannot run on some split is left out of all."""
    experiments = [asked.experiment]
    experiments += [asked.experiment.with_({"data.resplit": split}) for split in range(1, asked.repeats)]
    splits = Splits(tuple(prepare_methods(asked.methods, experiment) for experiment in experiments))
    return splits.without({name: why for study in splits.studies for name, why in study.left_out.items()})


def _rounds(splits: Splits, trials: int, seeds: int) -> int:
    """Return how many rounds all methods take, in tuning and in the last runs, at most."""
    return sum(
        tuning_rounds(study, trials) + seeds * sum(each.experiment.rounds.last for each in study.methods)
        for study in splits.studies
    )


def _tuned(splits: Splits, trials: int, folder: Path, jobs: int, progress: StudyWatcher) -> dict[str, list[Tuned]]:
    """Return what each method's tuning found on each split."""
    lines = {
        (each, split): line
        for split, study in enumerate(splits.studies)
        for each, line in tuning_lines(study, trials, folder, splits.suffix(split)).items()
    }
    found = work_off(lines, jobs, progress)
    return {
        each.name: [found[each.name, split] for split in range(len(splits.studies))] for each in splits.first.methods
    }


def failed_tuning(tuned: Sequence[Tuned]) -> str | None:
    """Return why a method has no setting on some split, or None."""
    return next((each.failure for each in tuned if each.failure), None)


def combined(tuned: Sequence[Tuned], rows: int) -> Tuned:
    """Return what the tunings on all splits say together: the best mean of the settings that most splits finished.

    The last runs of a split use what was found on it. This is for the models that are made in the end.
    """
    if len(tuned) == 1:
        return tuned[0]
    trials: list[Trial] = []
    times: list[int] = []  # on how many splits each ran to the end
    for setting in _distinct([trial.setting for each in tuned for trial in each.trials]):
        alike = [trial for each in tuned for trial in each.trials if trial.setting == setting]
        ended = [trial for trial in alike if trial.score is not None and trial.to_the_end]
        losses = [trial.loss for trial in ended if trial.loss is not None]
        times.append(len(ended))
        trials.append(
            Trial(
                len(trials),
                setting,
                round(median(trial.rounds for trial in ended or alike)),
                fmean(trial.score for trial in ended if trial.score is not None) if ended else None,
                fmean(losses) if losses and len(losses) == len(ended) else None,
                alike[0].sign,
                bool(ended),
                next((trial.failure for trial in alike if trial.failure), None),
            )
        )
    finished = [trial for trial, many in zip(trials, times, strict=True) if many == max(times)]
    best = best_of(finished, rows * max(times))
    capped, auto = any(each.capped for each in tuned), tuned[0].rounds is not None
    all_tried = all(each.all_tried for each in tuned)
    return Tuned(tuned[0].method, trials, best.setting, None, all_tried, best.rounds if auto else None, capped)


def _distinct(settings: Sequence[Setting]) -> list[Setting]:
    return [setting for i, setting in enumerate(settings) if setting not in settings[:i]]


def without_climb(results: Results, tuned: Mapping[str, Tuned]) -> Results:
    """Return the results, where methods whose rounds ended by themselves count as still learning only at the cap."""
    methods = {
        name: ran if tuned[name].rounds is None or tuned[name].capped else replace(ran, climb=None)
        for name, ran in results.methods.items()
    }
    return replace(results, methods=methods)


def _outside(splits: Splits, seeds: int) -> list[tuple[Experiment, int]]:
    """Return an experiment for each split, with how many runs it has: yardsticks are measured on the same rows."""
    return [(study.methods[0].experiment, seeds) for study in splits.studies]


def _plan(asked: CompareRequest, splits: Splits, folder: Path, jobs: int, progress: StudyWatcher) -> Plan:
    """Return the plan as asked for, or what fits into the time.

    For the latter every method's first trial begins, to measure how long a round takes.
    """
    everything, study = Plan(trials=asked.trials, seeds=asked.seeds, repeats=asked.repeats), splits.first
    if asked.seconds is None:
        return everything
    if before := remembered(folder, everything):
        return before
    first = {each.name: _first_rounds(each, folder, splits.suffix(0)) for each in study.methods}
    failed = work_off({name: _run([job]) for name, job in first.items()}, jobs, progress)
    left_out = {name: why for name, why in failed.items() if why}
    per_round = {
        name: fmean(row["seconds"] for row in Record(job.folder).rounds[: job.rounds])
        for name, job in first.items()
        if name not in left_out
    }
    experiment = study.methods[0].experiment
    plan = planned(everything.model_copy(update={"left_out": left_out}), per_round, experiment, jobs, asked.seconds)
    remember(folder, plan)
    return plan


def _first_rounds(method: StudyMethod, folder: Path, suffix: str) -> Job:
    """Return the job of the first trial up to the first rung, from where the tuner continues it."""
    experiment = validating(method.experiment)
    experiment = with_setting(experiment, first_setting(space_of(experiment, method.nets), experiment))
    auto = ends_by_itself(experiment)
    until = first_rung(experiment, method.settled) if auto else rungs(experiment.rounds.last)[0]
    if auto:
        experiment = experiment.with_({"checkpoint": {"every": until}})
    path = folder / "tuning" / f"{method.folder}{suffix}" / "trial-0"
    return Job(f"{method.name}{suffix}, trial 1", path, experiment, until)


def _finals(splits: Splits, tuned: Mapping[str, Sequence[Tuned]], seeds: int, folder: Path) -> dict[str, list[Job]]:
    """Return the last runs, one per method, split and seed; those of a split and seed are on the same rows."""
    finals: dict[str, list[Job]] = {}
    for split, study in enumerate(splits.studies):
        for each in study.methods:
            experiment = _final(each, tuned[each.name][split])
            for seed in range(experiment.seed, experiment.seed + seeds):
                name = f"{splits.suffix(split)}-seed{seed}"
                job = Job(
                    f"{each.name}{splits.suffix(split)}, seed {seed}",
                    folder / "runs" / f"{each.folder}{name}",
                    experiment.with_({"seed": seed}),
                )
                finals.setdefault(each.name, []).append(job)
    return finals


def _final(method: StudyMethod, tuned: Tuned) -> Experiment:
    """Return the experiment of a method's last runs: with the chosen setting, on the validation rows too if it can."""
    experiment = chosen(method, tuned)
    if method.validates or experiment.scoring.report != "last" or experiment.scoring.threshold:
        return experiment
    return experiment.with_({"data.val_share": 0.0})


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
