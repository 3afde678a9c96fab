"""Progress on the terminal: a bar per run or study, or a few lines where the output is no terminal."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from motet.config.experiment import Experiment
from motet.io.text import printable, shortened
from motet.metrics.names import GENERIC, MetricName, is_scored
from motet.metrics.registry import ACCURACY, METRICS
from motet.metrics.wording import duration, number, with_unit
from motet.server.evaluation import Row

LEAST_NAME, BESIDE_NAME = 10, 66  # least width of a method's name beside its bar, and the width of bar and figures
_AN_HOUR = 3600.0  # rounds may be long: the time left is estimated from those of the last hour


class Onlooker:
    """The base class of progress displays for single runs; it remembers the folder of the last run."""

    def __init__(self, console: Console):
        self.console = console
        self.folder: Path | None = None
        self.experiment: Experiment | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing; there is nothing to clear away."""

    def started(self, experiment: Experiment, folder: Path, round: int, warning: str | None) -> None:
        """Take note that a run begins, or continues after that many rounds."""
        self.experiment, self.folder = experiment, folder
        if warning:
            self.console.print(
                printable(f"warning: {warning}"), style="yellow", markup=False, highlight=False, soft_wrap=True
            )

    def round(self, row: Row) -> None:
        """Show that a round ended."""

    def scores(self, row: Row) -> str:
        """Return the figures of a round in which all clients were scored; an empty text where there are none.

        Where personal models are scored on clients' own test data, the generic model is shown on the same data.
        """
        if self.experiment is None or not is_scored(row):
            return ""
        personal = self.experiment.training_headline
        generic = MetricName(GENERIC, "common", personal.metric, "pooled")
        if personal.data != "weighted":
            generic = replace(personal, model=GENERIC)
        found = generic.of(row), personal.of(row)
        if found == (None, None):
            return ""
        metric = METRICS.get(personal.metric)
        if metric is None:
            return f"generic {number(found[0])}, personal {number(found[1])}"
        name = "" if metric is ACCURACY else f"{metric.said} "
        return f"{name}generic {with_unit(found[0], metric)}, personal {with_unit(found[1], metric)}"


class RunLines(Onlooker):
    """Progress for a log file: a few lines per run."""

    def __init__(self, console: Console, lines: int):
        super().__init__(console)
        self.lines = lines

    def started(self, experiment: Experiment, folder: Path, round: int, warning: str | None) -> None:
        super().started(experiment, folder, round, warning)
        if self.lines > 1:
            begins = f"goes on after round {round}" if round else f"runs {experiment.rounds.last} rounds"
            self._print(f"{experiment.method}: {begins}, recorded in {folder}")

    def round(self, row: Row) -> None:
        assert self.experiment is not None and isinstance(row["round"], int)
        count, every = self.experiment.rounds.last, self.experiment.scoring.every
        step = count / self.lines
        due = row["round"] == count or int(row["round"] / step) > int((row["round"] - every) / step)
        if due and is_scored(row):
            scores = self.scores(row)
            self._print(f"{self.experiment.method}: round {row['round']} of {count}{', ' * bool(scores)}{scores}")

    def _print(self, text: str) -> None:
        self.console.print(printable(text), markup=False, highlight=False, soft_wrap=True)


class RunBars(Onlooker):
    """Progress on a terminal: one live bar per run, with the latest figures and the time left."""

    def __init__(self, console: Console):
        super().__init__(console)
        self.task: TaskID | None = None
        self.bars = Progress(
            TextColumn("{task.description}", markup=False),
            # a narrow window shows figures instead of the bar
            *([BarColumn(bar_width=16)] if console.width >= LEAST_NAME + BESIDE_NAME else []),
            MofNCompleteColumn(),
            TextColumn("{task.fields[scores]}", markup=False),
            TimeRemainingColumn(compact=True, elapsed_when_finished=True),
            console=console,
            speed_estimate_period=_AN_HOUR,
            transient=True,
        )

    def __enter__(self) -> Self:
        self.bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bars.stop()

    def started(self, experiment: Experiment, folder: Path, round: int, warning: str | None) -> None:
        super().started(experiment, folder, round, warning)
        method = shortened(printable(experiment.method), max(LEAST_NAME, self.console.width - BESIDE_NAME))
        self.task = self.bars.add_task(method, total=experiment.rounds.last, completed=round, scores="")

    def round(self, row: Row) -> None:
        assert self.task is not None and isinstance(row["round"], int)
        self.bars.update(self.task, completed=row["round"])
        if scores := self.scores(row):
            self.bars.update(self.task, scores=scores)


def onlooker(console: Console, lines: int = 10) -> Onlooker:
    """Return the progress display that suits the console; for a log, about so many lines per run."""
    return RunBars(console) if console.is_terminal else RunLines(console, lines)


# -------- Progress of a study


class ShownJob(Protocol):
    """What progress needs to know of a run of a study."""

    @property
    def label(self) -> str:
        """Return the name under which the run is shown."""

    @property
    def rounds(self) -> int:
        """Return the number of the last round."""


class StudyProgress:
    """Counts the rounds of a study; the time left is estimated from those computed since the start."""

    def __init__(self, console: Console, total: int, clock: Callable[[], float] = time.monotonic):
        self.console, self.total, self.clock = console, total, clock
        self.began_at = clock()
        self.before = self.computed = 0  # rounds that were done before the start, and those of this process
        self.at: dict[str, int] = {}  # the last round of each run
        self.running: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing; there is nothing to clear away."""

    def expect(self, rounds: int) -> None:
        """Take note that the plan changed to so many runs in all."""
        self.total = rounds

    def began(self, job: ShownJob) -> None:
        """Take note that a run is computed, or goes on."""
        self.running[job.label] = self.at.get(job.label, 0)

    def round(self, job: ShownJob, round: int) -> None:
        """Take note that a round of a run ended."""
        self.running[job.label] = round
        self._advance(job.label, round, computed=True)

    def ended(self, job: ShownJob, failure: str | None) -> None:
        """Take note that a run is done, was done before, or failed."""
        ours = self.running.pop(job.label, None) is not None
        self._advance(job.label, job.rounds, computed=ours and failure is None)

    @property
    def share(self) -> float:
        """Return the share of all planned rounds that is done."""
        return min(1.0, (self.before + self.computed) / max(1, self.total))

    @property
    def left(self) -> float | None:
        """Return the seconds that are left, or None before anything was computed."""
        if not self.computed:
            return None
        missing = max(0, self.total - self.before - self.computed)
        return missing * (self.clock() - self.began_at) / self.computed

    def _advance(self, label: str, round: int, computed: bool) -> None:
        more = max(0, round - self.at.get(label, 0))
        self.at[label] = max(round, self.at.get(label, 0))
        if computed:
            self.computed += more
        else:
            self.before += more


class StudyLines(StudyProgress):
    """Progress of a study for a log: a line for each run that was computed, and each reason of a failure once."""

    def __init__(self, console: Console, total: int, clock: Callable[[], float] = time.monotonic):
        super().__init__(console, total, clock)
        self.first: dict[str, str] = {}  # the first run that failed for a reason

    def ended(self, job: ShownJob, failure: str | None) -> None:
        ours = job.label in self.running
        super().ended(job, failure)
        if ours:
            what = self._failed(job.label, failure) if failure else f"round {job.rounds}"
            self._print(f"{job.label}: {what}; {100 * self.share:.0f} % done{_left(self.left)}")

    def _failed(self, label: str, failure: str) -> str:
        first = self.first.setdefault(failure, label)
        return f"failed: {failure}" if first == label else f"failed as {first} did"

    def _print(self, text: str) -> None:
        self.console.print(printable(text), markup=False, highlight=False, soft_wrap=True)


class StudyBar(StudyProgress):
    """Progress of a study on a terminal: a bar with the time that is left."""

    def __init__(self, console: Console, total: int, clock: Callable[[], float] = time.monotonic):
        super().__init__(console, total, clock)
        self.bar = Progress(
            BarColumn(bar_width=16),
            TextColumn("{task.description}", markup=False),
            console=console,
            transient=True,
        )
        self.task: TaskID | None = None

    def __enter__(self) -> Self:
        self.bar.start()
        self.task = self.bar.add_task("", total=self.total)
        return self

    def __exit__(self, *of: Any) -> None:
        self.bar.stop()

    def began(self, job: ShownJob) -> None:
        super().began(job)
        self._show()

    def round(self, job: ShownJob, round: int) -> None:
        super().round(job, round)
        self._show()

    def ended(self, job: ShownJob, failure: str | None) -> None:
        super().ended(job, failure)
        self._show()

    def _show(self) -> None:
        assert self.task is not None
        now = ", ".join(f"{label} round {round}" for label, round in self.running.items())
        text = f"{100 * self.share:3.0f} %{_left(self.left)}  {printable(now)}"
        self.bar.update(self.task, completed=self.share * self.total, total=self.total, description=self._fitting(text))

    def _fitting(self, text: str) -> str:
        return shortened(text, max(20, self.console.width - 20))


def study_onlooker(console: Console, total: int) -> StudyProgress:
    """Return the progress display that suits the console."""
    return StudyBar(console, total) if console.is_terminal else StudyLines(console, total)


def _left(seconds: float | None) -> str:
    return "" if seconds is None else f", about {duration(seconds)} left"
