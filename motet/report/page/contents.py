"""The data of a page: the runs grouped into contenders (a method with its options, over seeds), and what charts need
of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import fmean
from typing import TypeVar

from motet.io.text import printable
from motet.metrics.metric import Metric
from motet.metrics.names import AFTER, BEFORE, GENERIC, PERSONAL, MetricName
from motet.metrics.wording import chosen_value, title_of_metric, with_unit
from motet.report.finished import Finished
from motet.report.tables.runs import differing_lines, is_yardstick
from motet.report.tables.seeds import TableLine
from motet.runs.clients_file import ClientInfo
from motet.runs.local_baseline import LOCAL
from motet.runs.rows import Row
from motet.studies.comparison_file import ComparisonFile, MethodResult

# -------- Names in sentences and charts


MOST_NAMES = 12  # names in a sentence
MOST_ROWS = 240  # rows in a chart; of more, two thirds come from the start and one third from the end

T = TypeVar("T")


def label_of(client: ClientInfo) -> str:
    """Return a client's name; a plain number becomes "client 3"."""
    name = f"client {client.id}" if client.name == str(client.id) else printable(client.name)
    return f"{name} (new)" if client.new else name


def names_of(names: Sequence[str]) -> str:
    """Return names for a sentence; of many, the first ones and how many more there are."""
    shown = ", ".join(names[:MOST_NAMES])
    return shown if len(names) <= MOST_NAMES else f"{shown} and {len(names) - MOST_NAMES} more"


def options_text(options: Mapping[str, object]) -> str:
    """Return options in a line, such as lr = 0.1, mu = 0.01."""
    return ", ".join(f"{name[:200]} = {chosen_value(name, value)[:200]}" for name, value in options.items())


def few(ordered: Sequence[T], first: str, last: str) -> tuple[list[T], str]:
    """Return the items to draw, and a sentence if they are not all."""
    if len(ordered) <= MOST_ROWS:
        return list(ordered), ""
    head, tail = 2 * MOST_ROWS // 3, MOST_ROWS // 3
    note = f" Of {len(ordered)} clients the {head} {first} and the {tail} {last} are drawn."
    return [*ordered[:head], *ordered[-tail:]], note


# -------- The unit of the main figure


@dataclass(frozen=True)
class Unit:
    """How values of a metric are drawn and called: shares as percent, others as they are."""

    metric: Metric

    @property
    def factor(self) -> float:
        """Return what a recorded value is multiplied with to be drawn."""
        return 100.0 if self.metric.percent else 1.0

    @property
    def title(self) -> str:
        """Return the name of an axis, such as "accuracy in %"."""
        return title_of_metric(self.metric)

    @property
    def difference(self) -> str:
        """Return the name of an axis of differences."""
        return "points of percent" if self.metric.percent else self.metric.said

    @property
    def ceiling(self) -> float | None:
        """Return the largest value that there can be, if there is one."""
        return self.factor if self.metric.is_share else None

    def least(self, share: float) -> float:
        """Return how long an axis is at least, so that small differences look small; none for a scale of its own."""
        return self.factor * share if self.metric.is_share else 0.0

    def drawn(self, value: float | None) -> float | None:
        """Return a recorded value as it is drawn; None also for one that no metric has, as in a damaged record."""
        return None if value is None or abs(value) > LARGEST else self.factor * value

    def said(self, drawn: float) -> str:
        """Return a drawn value for a sentence, with its unit."""
        return with_unit(drawn / self.factor, self.metric)


# -------- The data of a page


LARGEST = 1e6  # larger figures or counts of clients mean a damaged record


@dataclass(frozen=True)
class ReportedRun:
    """One run: its summary, its rounds, and its clients' rows of the reported round."""

    finished: Finished
    rounds: Sequence[Row]
    clients: Mapping[int, Row]
    new: Mapping[int, Row]

    @property
    def data(self) -> str:
        """Return the test data of the main figure."""
        return self.finished.headline.data

    @property
    def unit(self) -> Unit:
        """Return the unit of the main figure."""
        return Unit(self.finished.metric)

    @property
    def seed(self) -> int:
        """Return the seed of the run."""
        return self.finished.experiment.seed

    def own(self, client: int, model: str = PERSONAL) -> float | None:
        """Return a client's value of the main figure for a model, as it is drawn."""
        row = (self.new if model in (BEFORE, AFTER) else self.clients).get(client, {})
        return self.unit.drawn(MetricName(model, self.data, self.finished.headline.metric).of(row))

    def curve(self, figure: MetricName) -> dict[int, float]:
        """Return a figure by round, where it was scored, as it is drawn."""
        found = {row["round"]: self.unit.drawn(figure.of(row)) for row in self.rounds if "round" in row}
        return {round: value for round, value in found.items() if value is not None}


@dataclass(frozen=True)
class Contender:
    """A method with its options, which has one colour on the whole page, and its runs, one for each seed."""

    label: str
    series: int
    runs: tuple[ReportedRun, ...]
    compared: MethodResult | None = None

    @property
    def first(self) -> ReportedRun:
        """Return the first run, which stands for all in what they have in common."""
        return self.runs[0]

    @property
    def line(self) -> TableLine:
        """Return the contender as a line of a table."""
        return TableLine(tuple(each.finished for each in self.runs))

    @property
    def plain_method(self) -> str:
        """Return the method without its options."""
        return self.line.plain_method

    @property
    def is_yardstick(self) -> bool:
        """Return whether its method trains on pooled data, as a reference."""
        return is_yardstick(self.line)

    @property
    def clients_info(self) -> dict[int, ClientInfo]:
        """Return the clients of its first run by their ids."""
        return self.first.finished.clients_info.by_id

    @property
    def has_same_clients(self) -> bool:
        """Return whether all its seeds have the same clients, so that a client's values can be averaged over them."""
        dealt = {each.finished.experiment.data.partition_seed for each in self.runs}
        return len(dealt) == 1 or self.first.finished.experiment.data.partition == "natural"

    @property
    def bytes_per_round(self) -> float | None:
        """Return what a round sends down and up, mean over its runs; None if one of them does not say."""
        sent = [each.finished.summary.bytes_per_round for each in self.runs]
        there = [each.down + each.up for each in sent if each.down is not None and each.up is not None]
        return fmean(there) if len(there) == len(sent) else None

    def figure(self, figure: MetricName) -> list[float]:
        """Return a figure's value in each run that has one."""
        found = (figure.of(each.finished.summary.figures) for each in self.runs)
        return [value for value in found if value is not None and abs(value) <= LARGEST]

    def headline(self, model: str = PERSONAL, metric: str = "") -> list[float]:
        """Return the main figure, or the same for another model or metric, in each run."""
        at = self.first.finished.headline
        return self.figure(replace(at, model=model, metric=metric or at.metric))

    def generic(self) -> list[float]:
        """Return the main figure of the generic model in each run: on the same data as that of own models.

        Where clients did not score it, it is that over the whole common test set.
        """
        at = MetricName(GENERIC, "common", self.first.finished.headline.metric, "pooled")
        return self.headline(GENERIC) or self.figure(at)


@dataclass(frozen=True)
class PageContents:
    """All data of a page: the contenders, the comparison if there is one, and what could not be shown."""

    title: str
    contenders: tuple[Contender, ...]
    comparison: ComparisonFile | None = None
    left_out: tuple[str, ...] = ()
    best: Contender | None = field(default=None)

    @property
    def unit(self) -> Unit:
        """Return the unit of the main figure."""
        return self.focus.first.unit if self.comparison is None else Unit(self.comparison.judged_by)

    @property
    def focus(self) -> Contender:
        """Return the contender that details are about: the recommended, else the best, else the first that shares
        models."""
        if self.recommended:
            return self.recommended
        shares = [c for c in self.contenders if c.plain_method != LOCAL and not c.is_yardstick]
        return self.best or (shares or list(self.contenders))[0]

    @property
    def recommended(self) -> Contender | None:
        """Return the contender that the comparison recommends."""
        best = None if self.comparison is None else self.comparison.best
        return next((c for c in self.contenders if best is not None and c.compared is best), None)

    def named(self, method: str) -> Contender | None:
        """Return the first contender of that method, whatever its options."""
        return next((c for c in self.contenders if c.plain_method == method), None)

    @cached_property
    def finished(self) -> list[Finished]:
        """Return the runs of all contenders."""
        return [run.finished for contender in self.contenders for run in contender.runs]

    @property
    def lines(self) -> list[TableLine]:
        """Return all contenders as lines of a table."""
        return [contender.line for contender in self.contenders]

    @property
    def differing(self) -> list[str]:
        """Return the fields of experiments in which contenders differ."""
        return differing_lines(self.lines)
