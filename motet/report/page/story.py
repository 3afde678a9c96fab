"""What a page tells: the runs as contenders, one for each method and its seeds, with all that charts read of them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

from motet.errors import MotetError
from motet.printable import printable, shortened
from motet.report.comparison import best_of, differing_lines, field_of, is_yardstick, title_of
from motet.report.finished import Finished, read_finished
from motet.report.page.comparison_file import Compared, Comparison, is_comparison, read_comparison
from motet.report.seeds import Line, by_seed
from motet.runs.beside_local import LOCAL, same_clients
from motet.runs.people import Person
from motet.runs.record import Record
from motet.runs.rows import Row
from motet.scoring.figures import AFTER, BEFORE, GENERIC, PERSONAL, Figure
from motet.scoring.over_clients import worse_off
from motet.scoring.pairs import gain

FINE_TUNING = "fedavg+ft"
LONGEST_LABEL = 44
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
        return _percent(Figure(model, self.data).of(row))

    def curve(self, figure: Figure) -> dict[int, float]:
        """A share in percent by round, where it was scored."""
        found = {row["round"]: _percent(figure.of(row)) for row in self.rounds if "round" in row}
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
    def line(self) -> Line:
        """As tables have it."""
        return Line(tuple(each.run for each in self.told))

    @property
    def plain_method(self) -> str:
        """Without options."""
        return re.sub(r"\([^()]*\)", "", self.first.run.experiment.method)

    @property
    def is_yardstick(self) -> bool:
        """Whether its method trains in one place."""
        return is_yardstick(self.line)

    def figure(self, figure: Figure) -> list[float]:
        """Its value in each run that has one."""
        found = (figure.of(each.run.summary["figures"]) for each in self.told)
        return [value for value in found if value is not None and abs(value) <= LARGEST]

    def headline(self, model: str = PERSONAL, measure: str = "") -> list[float]:
        """The headline's mean over clients, or that of another model or measure, in each run."""
        at = self.first.run.headline
        return self.figure(replace(at, model=model, measure=measure or at.measure))

    def generic(self) -> list[float]:
        """The accuracy of the one model on the whole common test set, in each run; else on clients' data."""
        found = [each.run.summary["generic"]["accuracy"] for each in self.told]
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
    def lines(self) -> list[Line]:
        """Of all contenders."""
        return [contender.line for contender in self.contenders]

    @property
    def differing(self) -> list[str]:
        """The fields of experiments in which contenders differ."""
        return differing_lines(self.lines)


# ------------------------------------------------------------ reading


def story_of(folders: Sequence[Path]) -> Story:
    """Of run folders, folders of such, and at most one folder of a comparison."""
    compared = [folder for folder in folders if is_comparison(folder)]
    if len(compared) > 1 or (compared and len(folders) > 1):
        raise MotetError(
            f"{compared[0]} is a comparison and stands alone; accepted: one comparison, or folders of runs"
        )
    if compared:
        return _of_comparison(compared[0])
    told, left_out = _read([inside for folder in folders for inside in _runs_in(folder)])
    lines = sorted(by_seed([each.run for each in told]), key=_from_the_best)
    differing = differing_lines(lines)
    by_folder = {each.run.folder: each for each in told}
    labels = _labels(lines, differing)
    contenders = tuple(
        Contender(label, i, tuple(by_folder[run.folder] for run in line.runs))
        for i, (label, line) in enumerate(zip(labels, lines, strict=True))
    )
    best = best_of(lines, differing)
    found = next((c for c, line in zip(contenders, lines, strict=True) if line is best), None)
    return Story(title_of(lines, differing), contenders, None, left_out, found)


def _of_comparison(folder: Path) -> Story:
    comparison = read_comparison(folder)
    contenders: list[Contender] = []
    told, left_out = _read([run for method in comparison.methods for run in method.runs])
    by_folder = {each.run.folder: each for each in told}
    names = [method.method for method in comparison.methods]
    for method in sorted(comparison.methods, key=lambda m: -m.personal.mean if m.personal else 1.0):
        found = tuple(by_folder[run] for run in method.runs if run in by_folder)
        if found:
            twin = names.count(method.method) > 1 and method.options
            label = f"{method.method} ({method.options})" if twin else method.method
            contenders.append(Contender(_short(label), len(contenders), found, method))
    lines = [contender.line for contender in contenders]
    return Story(title_of(lines, differing_lines(lines)), tuple(contenders), comparison, left_out)


def _from_the_best(line: Line) -> float:
    """Yardsticks last, and who has no figure."""
    values = line.headline().values()
    return 1.0 if is_yardstick(line) or not values else -fmean(values)


def _runs_in(folder: Path) -> list[Path]:
    """The folder itself if it is a run, else the runs in it."""
    inside = sorted(path.parent for path in folder.glob("*/experiment.toml"))
    return [folder] if (folder / "experiment.toml").exists() or not inside else inside


def _read(folders: Sequence[Path]) -> tuple[list[Told], tuple[str, ...]]:
    """Every finished run, beside Local's on the same clients; a sentence for each that cannot be shown."""
    found: list[Told] = []
    wrong: list[MotetError] = []
    for folder in dict.fromkeys(folders):
        try:
            found.append(_told(read_finished(folder)))
        except MotetError as error:
            wrong.append(error)
    if not found:
        raise wrong[0] if wrong else MotetError("no run to report; accepted: folders of finished runs")
    return [_beside_local(each, found) for each in found], tuple(printable(error) for error in wrong)


def _told(run: Finished) -> Told:
    record, reported = Record(run.folder), run.summary["reported"]["round"]
    kinds: dict[bool, dict[int, Row]] = {False: {}, True: {}}
    for row in record.clients_of(reported):
        if "client" in row and not (run.headline.among and row.get("malicious")):
            kinds[bool(row.get("new"))][row["client"]] = row
    return Told(run, record.rounds, kinds[False], kinds[True])


def _beside_local(told: Told, all_told: Sequence[Told]) -> Told:
    """With the number of clients that Local serves better, where there is a run of it."""
    mine = told.run.experiment
    locals_ = [each for each in all_told if each.run.experiment.method == LOCAL]
    local = next((each for each in locals_ if same_clients(each.run.experiment, mine)), None)
    if local is None or mine.method == LOCAL:
        return told
    pairs = [(told.own(client), local.own(client)) for client in told.clients]
    both = [(a, b) for a, b in pairs if a is not None and b is not None]
    figures = worse_off(told.run.headline, both, "hurt_vs_local", higher_is_better=True)
    summary: Mapping[str, Any] = {**told.run.summary, "figures": {**told.run.summary["figures"], **figures}}
    return replace(told, run=replace(told.run, summary=summary))


def _labels(lines: Sequence[Line], differing: Sequence[str]) -> list[str]:
    """The method; where that is not enough the fields in which they differ, then the folder."""
    methods = [line.first.method for line in lines]
    if len(set(methods)) == len(methods):
        return [_short(method) for method in methods]

    def words(line: Line) -> str:
        fields = (f"{name.rpartition('.')[2]} {printable(field_of(line.first.experiment, name))}" for name in differing)
        return ", ".join([line.first.method, *fields])

    labels = [words(line) for line in lines]
    twins = [label for label in labels if labels.count(label) > 1]
    return [
        _short(f"{label}, {line.first.name}" if label in twins else label)
        for label, line in zip(labels, lines, strict=True)
    ]


def _short(label: str) -> str:
    return shortened(printable(label), LONGEST_LABEL)


# ------------------------------------------------------------ clients


def people_of(contender: Contender) -> dict[int, Person]:
    """Who the clients of its first run are."""
    return contender.first.run.people.by_id


def same_people(contender: Contender) -> bool:
    """Whether all its seeds have the same clients, so that a client's values can be averaged over them."""
    dealt = {each.run.experiment.data.partition_seed for each in contender.told}
    return len(dealt) == 1 or contender.first.run.experiment.data.partition == "natural"


@dataclass(frozen=True)
class Gained:
    """How much better a client's model is than another, in points of percent, and from where to where."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def is_unsure(self) -> bool:
        """Whether zero is between where it may be."""
        return self.low is not None and self.high is not None and self.low <= 0 <= self.high


def gains(contender: Contender, over: Contender) -> dict[int, Gained]:
    """Each training client's own model against the other contender's: the mean over seeds, and their range."""
    found: dict[int, list[float]] = {}
    pairs = [
        (mine, other)
        for mine in contender.told
        for other in over.told
        if same_clients(mine.run.experiment, other.run.experiment)
    ]
    for mine, other in pairs if same_people(contender) else pairs[:1]:
        for client in mine.clients:
            a, b = mine.own(client), other.own(client)
            if a is not None and b is not None:
                found.setdefault(client, []).append(a - b)
    return {i: Gained(fmean(v), *((min(v), max(v)) if len(v) > 1 else ())) for i, v in found.items()}


def gains_over_generic(contender: Contender) -> dict[int, Gained]:
    """The same against the one model of the first seed's run, with the interval that its samples tell."""
    told = contender.first
    found = {client: gain(row, PERSONAL, told.data) for client, row in told.clients.items()}
    return {i: Gained(100 * g.value, _percent(g.low), _percent(g.high)) for i, g in found.items() if g}


def _percent(share: float | None) -> float | None:
    """None also for what no share can be: a record may be damaged."""
    return None if share is None or abs(share) > LARGEST else 100 * share
