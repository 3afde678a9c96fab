"""What a page tells: the runs as contenders, one for each method and its seeds, with all that charts read of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from motet.metrics.names import AFTER, BEFORE, GENERIC, PERSONAL, MetricName
from motet.report.finished import Finished
from motet.report.page.comparison_file import Compared, Comparison
from motet.report.tables.runs import differing_lines, is_yardstick
from motet.report.tables.seeds import TableLine
from motet.runs.clients_file import ClientInfo
from motet.runs.local_baseline import LOCAL
from motet.runs.rows import Row

LARGEST = 1e6  # of a figure or a count of clients; what is beyond is damage


@dataclass(frozen=True)
class Told:
    """One run: its summary, its rounds, and its clients' rows of the reported round."""

    run: Finished
    rounds: Sequence[Row]
    clients: Mapping[int, Row]
    new: Mapping[int, Row]

    @property
    def data(self) -> str:
        """The headline's test data."""
        return self.run.headline.data

    @property
    def seed(self) -> int:
        """Of the run."""
        return self.run.experiment.seed

    def own(self, client: int, model: str = PERSONAL) -> float | None:
        """A client's accuracy in percent on the headline's data."""
        row = (self.new if model in (BEFORE, AFTER) else self.clients).get(client, {})
        return in_percent(MetricName(model, self.data).of(row))

    def curve(self, figure: MetricName) -> dict[int, float]:
        """A share in percent by round, where it was scored."""
        found = {row["round"]: in_percent(figure.of(row)) for row in self.rounds if "round" in row}
        return {round: value for round, value in found.items() if value is not None}


@dataclass(frozen=True)
class Contender:
    """A method with its options, in one colour everywhere, and its runs, one for each seed."""

    label: str
    series: int
    told: tuple[Told, ...]
    compared: Compared | None = None

    @property
    def first(self) -> Told:
        """That stands for all in what they have in common."""
        return self.told[0]

    @property
    def line(self) -> TableLine:
        """As tables have it."""
        return TableLine(tuple(each.run for each in self.told))

    @property
    def plain_method(self) -> str:
        """Without options."""
        return self.line.plain_method

    @property
    def is_yardstick(self) -> bool:
        """Whether its method trains in one place."""
        return is_yardstick(self.line)

    @property
    def clients_info(self) -> dict[int, ClientInfo]:
        """Who the clients of its first run are."""
        return self.first.run.clients_info.by_id

    @property
    def has_same_clients(self) -> bool:
        """Whether all its seeds have the same clients, so that a client's values can be averaged over them."""
        dealt = {each.run.experiment.data.partition_seed for each in self.told}
        return len(dealt) == 1 or self.first.run.experiment.data.partition == "natural"

    def figure(self, figure: MetricName) -> list[float]:
        """Its value in each run that has one."""
        found = (figure.of(each.run.summary.figures) for each in self.told)
        return [value for value in found if value is not None and abs(value) <= LARGEST]

    def headline(self, model: str = PERSONAL, metric: str = "") -> list[float]:
        """The headline's mean over clients, or that of another model or measure, in each run."""
        at = self.first.run.headline
        return self.figure(replace(at, model=model, metric=metric or at.metric))

    def generic(self) -> list[float]:
        """The accuracy of the one model on the whole common test set, in each run; else on clients' data."""
        found = [each.run.summary.generic.accuracy for each in self.told]
        return [value for value in found if value is not None] or self.headline(GENERIC)


@dataclass(frozen=True)
class Story:
    """All contenders, what is known of the comparison, and what could not be shown."""

    title: str
    contenders: tuple[Contender, ...]
    comparison: Comparison | None = None
    left_out: tuple[str, ...] = ()
    best: Contender | None = field(default=None)

    @property
    def focus(self) -> Contender:
        """Whom the details are about: the recommended one, else the best, else the first that shares something."""
        if self.recommended:
            return self.recommended
        shares = [c for c in self.contenders if c.plain_method != LOCAL and not c.is_yardstick]
        return self.best or (shares or list(self.contenders))[0]

    @property
    def recommended(self) -> Contender | None:
        """The contender that the comparison names."""
        if self.comparison is None:
            return None
        named = self.comparison.recommended, self.comparison.recommended_options
        of_name = [c for c in self.contenders if c.compared and c.compared.method == named[0]]
        return next((c for c in of_name if c.compared and c.compared.options == named[1]), next(iter(of_name), None))

    def named(self, method: str) -> Contender | None:
        """The first contender of that method, whatever its options."""
        return next((c for c in self.contenders if c.plain_method == method), None)

    @cached_property
    def runs(self) -> list[Finished]:
        """Of all contenders."""
        return [told.run for contender in self.contenders for told in contender.told]

    @property
    def lines(self) -> list[TableLine]:
        """Of all contenders."""
        return [contender.line for contender in self.contenders]

    @property
    def differing(self) -> list[str]:
        """The fields of experiments in which contenders differ."""
        return differing_lines(self.lines)


def in_percent(share: float | None) -> float | None:
    """None also for what no share can be: a record may be damaged."""
    return None if share is None or abs(share) > LARGEST else 100 * share
