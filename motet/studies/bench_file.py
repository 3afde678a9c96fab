"""A bench file: a grid of experiments, and the values that a paper reports for them.

name = "drift"
claim = "SCAFFOLD's generic model beats FedAvg's"
figures = ["generic.accuracy", "personal.split.personal_models"]
seeds = [0, 1, 2]
[setting]                       # as an experiment file has it
[grid]                          # every combination of these values
method = ["fedavg", "scaffold"]
partition = ["dirichlet:0.1", "dirichlet:0.3"]
[cases.NAME]                    # or choices under a name; with a grid too, each of them in every combination
[quick]                         # fields that --quick changes
[[paper]]                       # table, figures, and values by the names of cases
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from pydantic import Field

from motet.config.experiment import Experiment, resolve
from motet.config.layers import one_layer
from motet.config.names import parse
from motet.config.nesting import merge, nest
from motet.config.section import Section, checked
from motet.config.toml import read
from motet.errors import MotetError, shown
from motet.io.plugins import is_import
from motet.io.text import printable
from motet.metrics.names import (
    AFTER,
    BEFORE,
    DATA,
    DERIVED,
    GENERIC,
    OF_A_MEMBER,
    OF_A_RULE,
    PERSONAL,
    STATISTICS,
    MetricName,
)
from motet.metrics.registry import METRICS, OF_A_RUN, require_metrics
from motet.runs.rows import ROUND_COLUMNS
from motet.runs.summary import Summary
from motet.studies.budget import MOST_SEEDS

# -------- Names of figures


MODELS = (GENERIC, PERSONAL, BEFORE, AFTER, OF_A_MEMBER, OF_A_RULE)
_OF_GENERIC = {"accuracy", "derived"}
_OF_PERSONAL = {*STATISTICS, "readings"}


def could_be_there(name: str, experiments: Sequence[Experiment]) -> bool:
    """Return whether a run of one of these experiments may have a figure of this name."""
    kind, _, rest = name.partition(".")
    if kind == "last":
        return any(model.startswith(rest) or rest.startswith(model) for model in MODELS) and bool(rest)
    if kind == "curve":
        return _is_column(rest, experiments)
    return _is_figure(name, experiments) or _is_of_summary(name)


def _is_figure(name: str, experiments: Sequence[Experiment]) -> bool:
    figure = MetricName.read(name)
    return bool(figure and figure.statistic and figure.model.startswith(MODELS) and _measured(figure, experiments))


def _measured(figure: MetricName, experiments: Sequence[Experiment]) -> bool:
    """Return whether the figure is one of Motet's metrics, or one of the user's own.

    Details stand after a colon (`mdl:fc1`); those that are measured once may have more than one figure (`line_0_5`).
    """
    own = {text.rpartition(":")[2] for each in experiments for text in each.scoring.asked_metrics if is_import(text)}
    name = figure.metric.partition(":")[0]
    return figure.metric in own or name in {*METRICS, *OF_A_RUN} or name.startswith(tuple(f"{of}_" for of in OF_A_RUN))


def _is_column(name: str, experiments: Sequence[Experiment]) -> bool:
    """Return whether it may be a column of rounds.jsonl.

    A method's own columns begin with its name; those of a user's own method are not known before it runs.
    """
    if _is_figure(name, experiments) or name in ROUND_COLUMNS or name == DERIVED:
        return True
    terms = [term.name for each in experiments for term in parse(each.method)]
    prefixes = {term.replace("-", "_").replace("+", "_") for term in terms} | set(OF_A_RUN)
    return any(map(is_import, terms)) or any(name.startswith(prefix) for prefix in prefixes)


def _is_of_summary(name: str) -> bool:
    first, *inner = name.split(".")
    if first == "generic":
        return inner == [] or inner[0] in _OF_GENERIC
    if first == "personal" and inner and inner[0] in DATA:
        return inner[1:] in ([], ["personal_models"], ["generic_model"])
    if first == "personal":
        return inner == [] or inner[0] in _OF_PERSONAL
    if first == "new_clients":
        return inner == [] or ".".join(inner).startswith((BEFORE, AFTER))
    return first in Summary.model_fields


# -------- The file


QUICK = {"rounds": {"count": 2}}
MOST_CASES = MOST_RUNS = 10_000


class Paper(Section):
    """Values that a paper reports, in percent, for one figure or several."""

    table: str = Field("", description="where they stand")
    figures: tuple[str, ...] = Field(
        (), description="which of the bench's figures they are; none: said below the table"
    )
    values: dict[str, float | list[float]] = Field({}, description="by the names of cases")


class BenchFile(Section):
    """The contents of a bench file."""

    name: str = Field(min_length=1, description="of the bench")
    claim: str = Field("", description="what it is to show")
    figures: tuple[str, ...] = Field(
        min_length=1, description="to report, by the names of the summary; first the most important"
    )
    seeds: tuple[int, ...] = Field(
        (0, 1, 2), min_length=1, max_length=MOST_SEEDS, description="of the runs of each case, each once"
    )
    setting: dict[str, Any] = Field({}, description="choices of all experiments")
    cases: dict[str, dict[str, Any]] = Field({}, description="choices of each case, by its name")
    grid: dict[str, list[Any]] = Field({}, description="values of fields, every combination of which is a case")
    quick: dict[str, Any] = Field({}, description="what --quick chooses otherwise")
    paper: tuple[Paper, ...] = Field((), description="what a paper reports")

    def experiments(self, quick: bool = False) -> dict[str, Experiment]:
        """Return every case by its name, without its seed."""
        found: dict[str, Experiment] = {}
        for name, choices in self._named():
            if len(found) >= MOST_CASES:
                raise MotetError(f"bench {self.name!r} has more than {MOST_CASES} cases; accepted: a smaller grid")
            where = f"case {name!r} of bench {self.name!r}"
            layers = [self.setting, choices, *([merge(QUICK, self.quick)] if quick else [])]
            found[name] = resolve(merge(*(one_layer([layer], where) for layer in layers)))
        return found

    def paper_value(self, case: str, figure: str) -> float | None:
        """Return what the paper reports for a case, as a share."""
        for paper in self.paper:
            if figure in paper.figures and case in paper.values:
                value = paper.values[case]
                found = value[paper.figures.index(figure)] if isinstance(value, list) else value
                return found / 100
        return None

    def _named(self) -> Iterator[tuple[str, dict[str, Any]]]:
        several = [name for name, values in self.grid.items() if len(values) > 1]
        for case, choices in (self.cases or {"": {}}).items():
            for values in product(*self.grid.values()):
                point = dict(zip(self.grid, values, strict=True))
                words = [case, *(_word(point[name]) for name in several)]
                fields = [_choice(name, value) for name, value in point.items()]
                yield ", ".join(filter(None, words)) or _word(next(iter(values), self.name)), merge(choices, *fields)


def read_bench(path: Path) -> BenchFile:
    """Return the bench of a file, or raise a MotetError; all of the file is checked before anything runs."""
    where = f"bench file {path}"
    bench = checked(BenchFile, read(path, "bench file"), where)
    for name, values in bench.grid.items():
        if not values:
            raise MotetError(f"{where}: grid.{name} is empty; accepted: a list of values")
    for field, given in (("seeds", bench.seeds), ("figures", bench.figures)):
        if twice := [value for value in given if given.count(value) > 1]:
            raise MotetError(f"{where}: {field} has {shown(twice[0])} twice; accepted: each once")
    cases = bench.experiments()
    if len(cases) * len(bench.seeds) > MOST_RUNS:
        raise MotetError(
            f"{where} asks for {len(cases)} cases with {len(bench.seeds)} seeds each; accepted: up to {MOST_RUNS} runs"
        )
    for experiment in (*cases.values(), *bench.experiments(quick=True).values()):
        require_metrics(experiment.scoring.metrics)
    for figure in bench.figures:
        if not could_be_there(figure, list(cases.values())):
            raise MotetError(
                f"{where}: figures names {shown(figure)}; accepted: such as generic.accuracy, "
                f"personal.split.personal_models, personal.split.accuracy.std, curve.NAME or last.NAME of such a name"
            )
    for paper in bench.paper:
        _check_paper(paper, bench, cases, where)
    return bench


def _check_paper(paper: Paper, bench: BenchFile, cases: Mapping[str, Experiment], where: str) -> None:
    for figure in paper.figures:
        if figure not in bench.figures:
            raise MotetError(f"{where}: paper.figures names {figure!r}; accepted: {', '.join(bench.figures)}")
    for case, value in paper.values.items():
        if paper.figures and case not in cases:
            raise MotetError(f"{where}: paper.values names {case!r}; accepted: cases, {', '.join(cases)}")
        if isinstance(value, list) and paper.figures and len(value) != len(paper.figures):
            raise MotetError(
                f"{where}: paper.values of {case!r} is {shown(value)}; accepted: a value for each of paper.figures"
            )


def _choice(name: str, value: Any) -> Mapping[str, Any]:
    return nest({name: value}) if "." in name else {name: value}


def _word(value: Any) -> str:
    return printable(value)
