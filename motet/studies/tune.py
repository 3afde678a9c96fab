"""`motet tune`: the tuner alone, the same number of trials for every method."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from motet.config.experiment import Experiment, write
from motet.studies.contestants import Contest, Contestant, enter
from motet.studies.folder import opened, write_json
from motet.studies.schedule import StudyWatcher, work_off
from motet.studies.space import size_of, space_of, with_setting
from motet.studies.tuning import Tuned, rounds_of, tune, validating

FORMAT = 1

LookOn = Callable[[int], AbstractContextManager[StudyWatcher]]
"""Makes who looks on at so many rounds."""


@dataclass(frozen=True)
class TuneRequest:
    """What a tuning is asked for."""

    experiment: Experiment
    methods: tuple[str, ...]
    trials: int

    def as_json(self) -> dict[str, Any]:
        """For the folder."""
        return {
            "study": "tune",
            "format": FORMAT,
            "experiment": self.experiment.model_dump(exclude={"engine", "checkpoint"}),
            "methods": list(self.methods),
            "trials": self.trials,
        }


def tune_methods(asked: TuneRequest, folder: Path, jobs: int, look_on: LookOn) -> dict[str, Any]:
    """Tune every method; the folder gets tuning.json, and an experiment file for each."""
    field = enter(asked.methods, asked.experiment)
    with opened(folder, asked.as_json()), look_on(tuning_rounds(field, asked.trials)) as progress:
        tuned = tune_all(field, asked.trials, folder / "tuning", jobs, progress)
        result = {
            "format": FORMAT,
            "methods": [_of_method(contestant, tuned[contestant.name], folder) for contestant in field.contestants],
            "left_out": dict(field.left_out),
            "notes": field.said_of_the_data(),
        }
        write_json(folder / "tuning.json", result)
    return result


def tuning_rounds(field: Contest, trials: int) -> int:
    """How many rounds the tuning of all methods takes."""
    return sum(
        rounds_of(min(trials, size_of(space_of(each.experiment.method))), each.experiment.rounds.count)
        for each in field.contestants
    )


def tune_all(field: Contest, trials: int, folder: Path, jobs: int, progress: StudyWatcher) -> dict[str, Tuned]:
    """What each method's tuning found."""
    lines = {
        each.name: tune(validating(each.experiment), trials, folder / each.folder, each.name)
        for each in field.contestants
    }
    return work_off(lines, jobs, progress)


def chosen(contestant: Contestant, tuned: Tuned) -> Experiment:
    """The contestant's experiment with the setting that was found for it."""
    assert tuned.setting is not None
    return with_setting(contestant.experiment, tuned.setting)


def _of_method(contestant: Contestant, tuned: Tuned, folder: Path) -> dict[str, Any]:
    """A method's part of tuning.json."""
    best = max((t.score for t in tuned.trials if t.setting == tuned.setting and t.score is not None), default=None)
    found: dict[str, Any] = {
        "method": contestant.name,
        "options": tuned.setting,
        "score": best,
        "trials": [trial.as_json() for trial in tuned.trials],
    }
    if tuned.setting is None:
        return found | {"failure": tuned.failure}
    experiment = chosen(contestant, tuned)
    file = f"{contestant.folder}.toml"
    write(experiment, folder / file)
    return found | {"expression": experiment.method, "experiment": file}
