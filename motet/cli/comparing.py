"""`motet tune`, `motet compare`, `motet bench`."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from motet.cli.console import messages, note, output, write_json
from motet.cli.stopped import told_how_to_go_on
from motet.errors import MotetError
from motet.printable import printable
from motet.report.study_progress import StudyProgress, study_onlooker
from motet.report.tuned import tuned_table
from motet.runs.assembly import cores
from motet.runs.experiment import Experiment
from motet.studies.tune import Asked, tune_methods


def tune_and_show(experiment: Experiment, methods: str, trials: int, jobs: int, out: Path | None, json: bool) -> None:
    """Tune methods and show what was found."""
    asked = Asked(experiment, method_names(methods), at_least_one("--trials", trials))
    folder = out or default_folder("tune", experiment)
    with told_how_to_go_on(lambda: way_on(folder)):
        result = tune_methods(asked, folder, jobs_at_once(jobs), _look_on)
    if json:
        note(f"recorded in {folder}")
        write_json(result)
    else:
        output().print(tuned_table(result))
        output().print(printable(f"Recorded in {folder}"), markup=False, soft_wrap=True)


@contextmanager
def _look_on(total: int) -> Iterator[StudyProgress]:
    with study_onlooker(messages(), total) as progress:
        yield progress


def method_names(text: str) -> tuple[str, ...]:
    """Names with commas between them; a comma in brackets belongs to its method."""
    names = [name.strip() for name in re.split(r",(?![^()]*\))", text)]
    if not all(names):
        raise MotetError(f"--methods is {text!r}; accepted: names with commas between them, such as fedavg,fedavg+ft")
    return tuple(names)


def at_least_one(option: str, value: int, most: int = 10_000) -> int:
    """A count that an option gives."""
    if not 1 <= value <= most:
        raise MotetError(f"{option} is {value}; accepted: a whole number from 1 to {most}")
    return value


def jobs_at_once(asked: int) -> int:
    """How many runs are computed at the same time: as many as asked for, or one per core."""
    return cores() if asked == 0 else at_least_one("--jobs", asked, 1024)


def default_folder(kind: str, experiment: Experiment) -> Path:
    """The same for the same command, so that it goes on where it stopped."""
    words = f"{kind}-{Path(experiment.data.name).stem}"
    return Path("runs") / (re.sub(r"[^A-Za-z0-9.+=_-]+", "-", words).strip("-.")[:100] or kind)


def way_on(folder: Path) -> str:
    """What a user is told who stopped a study."""
    return f"stopped; the same command goes on where it was ({folder} has what is finished)"
