"""The interface of a log for another program, and the watcher that writes the rounds of a run to each log.

After every start a log is written anew from the record, so that a run that was killed and resumed has each round once,
and a run that began without a log gets a whole one. A log that fails stops with a warning; the run goes on.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar, Protocol

from motet.config.experiment import Experiment
from motet.errors import MotetError, one_sentence, unknown
from motet.metrics.names import is_scored
from motet.runs.record import Record
from motet.runs.rows import Row
from motet.runs.run import Watcher
from motet.track.mlflow import MLflow
from motet.track.tensorboard import TensorBoard


class Tracker(Protocol):
    """One log of one run at a time. An earlier log of the same run is replaced, so that nothing is in it twice."""

    package: ClassVar[str]
    """What must be installed."""

    def __init__(self, place: str):
        """Take the place where the log goes; an empty one means the folder of the run."""

    def start(self, experiment: Experiment, folder: Path) -> None:
        """Begin the log of a run anew; an earlier log of the same run is replaced."""

    def log(self, round: int, values: Mapping[str, float]) -> None:
        """Log the values of a round, by their names in the record."""

    def flush(self) -> None:
        """Make everything that was logged so far visible to readers of the log."""

    def close(self, finished: bool) -> None:
        """End the log; `finished` is False for a run that was stopped."""


def require_package(name: str, package: str) -> None:
    """Raise a MotetError if the package of a log is not installed."""
    if find_spec(package) is None:
        raise MotetError(f"track is {name!r}, which needs {package}; accepted: pip install 'motet[{name}]'")


TRACKERS: dict[str, type[Tracker]] = {"tensorboard": TensorBoard, "mlflow": MLflow}


class Tracked:
    """A watcher that passes everything on to another one and writes the logs."""

    def __init__(self, watcher: Watcher, trackers: Sequence[Tracker], warn: Callable[[str], None]):
        self.watcher, self.trackers, self.warn = watcher, list(trackers), warn
        self.begun = self.done = False

    def started(self, experiment: Experiment, folder: Path, round: int, warning: str | None) -> None:
        """Begin the logs with all rounds that the record has; called when a run begins or is resumed."""
        self.watcher.started(experiment, folder, round, warning)
        self._begin(Record(folder))

    def round(self, row: Row) -> None:
        """Log a round that ended."""
        self._log(row)
        self.watcher.round(row)

    def finished(self, folder: Path) -> None:
        """Log the final figures of a complete run, also of one that was complete before and had nothing left to do."""
        self.done = True
        if not self.trackers:
            return
        record = Record(folder)
        if not self.begun:
            self._begin(record)
        last = record.rounds[-1]
        more = {name: value for name, value in record.summary.figures.items() if name not in last}
        self._each(lambda tracker: tracker.log(last["round"], more))

    def close(self) -> None:
        """Close all logs, however the run ended."""
        self._each(lambda tracker: tracker.close(self.done))

    def _begin(self, record: Record) -> None:
        self.begun = True
        if not self.trackers:
            return
        self._each(lambda tracker: tracker.start(record.experiment, record.folder))
        for row in record.rounds:
            self._each(lambda tracker, row=row: tracker.log(row["round"], values_of(row)))  # type: ignore[misc]
        self._each(lambda tracker: tracker.flush())

    def _log(self, row: Row) -> None:
        self._each(lambda tracker: tracker.log(row["round"], values_of(row)))
        if is_scored(row):
            self._each(lambda tracker: tracker.flush())

    def _each(self, act: Callable[[Tracker], None]) -> None:
        for tracker in list(self.trackers):
            try:
                act(tracker)
            except Exception as error:  # disks, networks and servers fail in many ways
                self.trackers.remove(tracker)
                reason = one_sentence(f"{type(error).__name__}: {error}")[:300]
                self.warn(f"warning: the log for {tracker.package} stopped ({reason}); the run goes on")


def values_of(row: Row) -> dict[str, float]:
    """Return the numbers of a round by their names in the record."""
    numbers = {name: value for name, value in row.items() if name != "round" and not isinstance(value, bool)}
    return {name: value for name, value in numbers.items() if isinstance(value, int | float)}


@contextmanager
def tracked(watcher: Watcher, asked: Sequence[str], warn: Callable[[str], None]) -> Iterator[Tracked]:
    """Yield a watcher with these logs, such as `tensorboard` or `mlflow:http://localhost:5000`."""
    made = Tracked(watcher, [_tracker(text) for text in asked], warn)
    try:
        yield made
    finally:
        made.close()


def _tracker(text: str) -> Tracker:
    name, _, place = text.partition(":")
    if name not in TRACKERS:
        raise unknown("track", name, TRACKERS)
    require_package(name, TRACKERS[name].package)
    return TRACKERS[name](place)
