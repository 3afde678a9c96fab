"""Who looks on while experiments run: a bar per run on a terminal, a few lines elsewhere."""

from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from motet.evaluation import Row
from motet.printable import printable, shortened
from motet.report.words import percent
from motet.runs.experiment import Experiment
from motet.scoring.figures import GENERIC, Figure, is_scored

LEAST_NAME, BESIDE_NAME = 10, 66  # cells of a method's name beside its bar, and what bar and figures take
_AN_HOUR = 3600.0  # rounds may be long: the time left is told from all those of the last hour


class Onlooker:
    """Sees one run after the other; remembers where the last one is."""

    def __init__(self, console: Console):
        self.console = console
        self.folder: Path | None = None
        self.experiment: Experiment | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to clear away."""

    def started(self, experiment: Experiment, folder: Path, round: int, warning: str | None) -> None:
        """A run begins, or goes on after that many rounds."""
        self.experiment, self.folder = experiment, folder
        if warning:
            self.console.print(
                printable(f"warning: {warning}"), style="yellow", markup=False, highlight=False, soft_wrap=True
            )

    def round(self, row: Row) -> None:
        """A round ended."""

    def scores(self, row: Row) -> str:
        """The figures of a round in which everybody was scored, or nothing.

        Beside personal models on clients' own test data stands the generic model on the same data.
        """
        if self.experiment is None or not is_scored(row):
            return ""
        generic, personal = Figure(GENERIC, "common", statistic="pooled"), self.experiment.training_headline
        if personal.data != "weighted":
            generic = replace(personal, model=GENERIC)
        return f"generic {percent(generic.of(row))} %, personal {percent(personal.of(row))} %"


class Lines(Onlooker):
    """For a log: a few lines per run."""

    def __init__(self, console: Console, lines: int):
        super().__init__(console)
        self.lines = lines

    def started(self, experiment: Experiment, folder: Path, round: int, warning: str | None) -> None:
        super().started(experiment, folder, round, warning)
        if self.lines > 1:
            begins = f"goes on after round {round}" if round else f"runs {experiment.rounds.count} rounds"
            self._print(f"{experiment.method}: {begins}, recorded in {folder}")

    def round(self, row: Row) -> None:
        assert self.experiment is not None and isinstance(row["round"], int)
        count, every = self.experiment.rounds.count, self.experiment.scoring.every
        step = count / self.lines
        due = row["round"] == count or int(row["round"] / step) > int((row["round"] - every) / step)
        if due and (scores := self.scores(row)):
            self._print(f"{self.experiment.method}: round {row['round']} of {count}, {scores}")

    def _print(self, text: str) -> None:
        self.console.print(printable(text), markup=False, highlight=False, soft_wrap=True)


class Bars(Onlooker):
    """For a terminal: one live bar per run, with the latest figures and the time left."""

    def __init__(self, console: Console):
        super().__init__(console)
        self.task: TaskID | None = None
        self.bars = Progress(
            TextColumn("{task.description}", markup=False),
            *([BarColumn(bar_width=16)] if console.width >= LEAST_NAME + BESIDE_NAME else []),  # figures come first
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
        self.task = self.bars.add_task(method, total=experiment.rounds.count, completed=round, scores="")

    def round(self, row: Row) -> None:
        assert self.task is not None and isinstance(row["round"], int)
        self.bars.update(self.task, completed=row["round"])
        if scores := self.scores(row):
            self.bars.update(self.task, scores=scores)


def onlooker(console: Console, lines: int = 10) -> Onlooker:
    """What suits the console; not on a terminal, about so many lines per run."""
    return Bars(console) if console.is_terminal else Lines(console, lines)
