"""`motet tune`: find good settings for methods with the same number of trials for each; and tuning.json."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from motet.config.experiment import Experiment, write
from motet.io.json_models import FileModel
from motet.metrics.metric import Metric
from motet.metrics.registry import headline_metric, known_metric
from motet.studies.comparison_file import TrialResult
from motet.studies.folder import AskedFile, Name, Number, Options, Sentence, opened, write_file
from motet.studies.schedule import StudyWatcher, Workflow, sharing_data, work_off
from motet.studies.space import size_of, space_of, with_setting
from motet.studies.study_methods import StudyMethod, StudyMethods, prepare_methods
from motet.studies.tuning import Tuned, ends_by_itself, first_rung, halves, rounds_of, tune, validating

FILE = "tuning.json"
FORMAT: Final = 1

LookOn = Callable[[int], AbstractContextManager[StudyWatcher]]
"""Makes the watcher of a study of so many rounds."""


class TunedMethod(FileModel):
    """What was found for a method: the best setting and its experiment file, or why there is none."""

    method: Name
    options: Options | None
    score: Number | None
    trials: tuple[TrialResult, ...]
    failure: Sentence | None
    expression: Name | None
    experiment: Name | None


class TuningFile(FileModel):
    """tuning.json: the settings that were found for all methods."""

    format: Literal[1]
    methods: tuple[TunedMethod, ...]
    left_out: dict[Name, Sentence]
    notes: tuple[Sentence, ...]
    metric: Name = "accuracy"
    """The metric of all scores."""
    higher_is_better: bool = True

    @property
    def judged_by(self) -> Metric:
        """Return the metric of all scores."""
        return known_metric(self.metric, self.higher_is_better)


@dataclass(frozen=True)
class TuneRequest:
    """What a tuning is asked to do."""

    experiment: Experiment
    methods: tuple[str, ...]
    trials: int

    @property
    def file(self) -> AskedFile:
        """Return what asked.json holds."""
        request: dict[str, Any] = {
            "experiment": self.experiment.model_dump(mode="json", exclude={"engine", "checkpoint"}),
            "methods": list(self.methods),
            "trials": self.trials,
        }
        return AskedFile(study="tune", format=FORMAT, request=request)


def tune_methods(asked: TuneRequest, folder: Path, jobs: int, look_on: LookOn) -> TuningFile:
    """Tune every method; return what the folder gets as tuning.json, beside an experiment file for each method."""
    with sharing_data(jobs):
        study = prepare_methods(asked.methods, asked.experiment)
        with opened(folder, asked.file), look_on(tuning_rounds(study, asked.trials)) as progress:
            tuned = tune_all(study, asked.trials, folder / "tuning", jobs, progress)
            result = TuningFile(
                format=FORMAT,
                methods=tuple(_of_method(each, tuned[each.name], folder) for each in study.methods),
                left_out=dict(study.left_out),
                notes=tuple(study.said_of_the_data()),
                metric=study.methods[0].experiment.scoring.metric_name,
                higher_is_better=headline_metric(study.methods[0].experiment.scoring).higher_is_better,
            )
            write_file(folder / FILE, result)
    return result


def tuning_rounds(study: StudyMethods, trials: int) -> int:
    """Return how many rounds the tuning of all methods takes."""
    return sum(
        rounds_of(
            min(trials, size_of(space_of(each.experiment, each.nets))),
            each.experiment.rounds.last,
            _only_rung(each),
        )
        for each in study.methods
    )


def _only_rung(method: StudyMethod) -> int:
    """Return the one rung of trials whose rounds end by themselves; 0 where their number is fixed."""
    rounds = method.experiment.rounds
    if not ends_by_itself(method.experiment):
        return 0
    return first_rung(method.experiment, method.settled) if halves(method.experiment) else rounds.last


def tune_all(study: StudyMethods, trials: int, folder: Path, jobs: int, progress: StudyWatcher) -> dict[str, Tuned]:
    """Return what each method's tuning found."""
    return work_off(tuning_lines(study, trials, folder), jobs, progress)


def tuning_lines(study: StudyMethods, trials: int, folder: Path, suffix: str = "") -> dict[str, Workflow[Tuned]]:
    """Return the tuning of each method; the suffix tells apart those of several splits of the data."""
    return {
        each.name: tune(
            validating(each.experiment),
            trials,
            folder / f"{each.folder}{suffix}",
            f"{each.name}{suffix}",
            each.nets,
            study.validation_rows,
            each.settled,
        )
        for each in study.methods
    }


def chosen(method: StudyMethod, tuned: Tuned) -> Experiment:
    """Return the method's experiment with the setting that was found for it.

    Where rounds end by themselves, it has the number of rounds that was best.
    """
    assert tuned.setting is not None
    experiment = with_setting(method.experiment, tuned.setting)
    if tuned.rounds is None:
        return experiment
    rounds = {"count": tuned.rounds, "horizon": experiment.rounds.laid_out_for}
    return experiment.with_({"rounds": rounds, "scoring": {"report": "last"}})


def _of_method(method: StudyMethod, tuned: Tuned, folder: Path) -> TunedMethod:
    """Write the experiment file of a method, if a setting was found, and return its part of tuning.json."""
    best = max((t.score for t in tuned.trials if t.setting == tuned.setting and t.score is not None), default=None)
    expression = file = None
    if tuned.setting is not None:
        experiment, file = chosen(method, tuned), f"{method.folder}.toml"
        write(experiment, folder / file)
        expression = experiment.method
    return TunedMethod(
        method=method.name,
        options=tuned.setting,
        score=best,
        trials=tuple(trial.result() for trial in tuned.trials),
        failure=tuned.failure,
        expression=expression,
        experiment=file,
    )
