"""The columns of a table of runs: the figures that all runs have, and the metrics that some were asked for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean, stdev

from motet.io.text import printable
from motet.metrics.names import AFTER, BEFORE, FROM_SUMS, GENERIC, MAJORITY, PERSONAL, MetricName, variant
from motet.metrics.registry import ACCURACY, LOSS, METRICS
from motet.metrics.wording import NOTHING, counted, megabytes, number, written
from motet.report.finished import headline_of, metric_of
from motet.runs.summary import Summary

Cell = Callable[[Sequence[Summary]], str]

MEAN_OF_ROWS = "mean of\ntraining\nrows"  # the same for numbers as targets
MOST_FREQUENT = "most\nfrequent\nclass"  # the title of the column of `MAJORITY`
DERIVED = "†"  # marks a generic model that the method itself does not define


@dataclass(frozen=True)
class Column:
    """A column of the table: its title, its group, and the function that writes its cell for the runs of a line."""

    title: str
    cell: Cell
    data: str = ""  # the test data of its figures
    always: bool = False  # also where no run has a value
    headline: bool = False


def figure_columns(summaries: Sequence[Summary]) -> list[Column]:
    """Return the columns: generic model, personal models on each kind of test data, new clients, cost; none that is
    empty."""
    headlines = list(dict.fromkeys(headline_of(s).data for s in summaries))
    others = [data for data in ("split", "weighted") if data not in headlines]
    new = all(headline_of(s).model == AFTER for s in summaries)
    first = [column for data in headlines for column in _of_headline(data, not new)]
    adapted = [
        Column("new clients\nbefore → after", _adapted, headline=new),
        *(_of_model(model) for model in _others(summaries, AFTER)),
    ]
    columns = [
        Column(f"generic\n{_names_of_metrics(summaries)}", _generic, always=True),
        *(adapted if new else ()),
        *first,
        *(_of_model(model) for model in _others(summaries, PERSONAL)),
        *(column for data in others for column in _pair(data)),
        *(column for name in _measures(summaries, PERSONAL) for column in _of_measure(name)),
        *(_of_generic(name) for name in _measures(summaries, GENERIC) if name not in _measures(summaries, PERSONAL)),
        *(() if new else adapted),
        Column("MB per\nround", _sent, always=True),
        Column("seconds", lambda group: f"{fmean(s.seconds for s in group):.1f}"),
    ]
    return [c for c in columns if c.always or any(c.cell([s]) != NOTHING for s in summaries)]


def over_seeds(values: Sequence[float | None], write: Callable[[float], str]) -> str:
    """Return one value as text, or mean and standard deviation of several; a dash if there is none."""
    there = [value for value in values if value is not None]
    if len(there) < 2:
        return write(there[0]) if there else NOTHING
    return f"{write(fmean(there))} ± {write(stdev(there))}"


def _value(summary: Summary, model: str, data: str, metric: str = "", statistic: str = "") -> float | None:
    """Return a figure over the main figure's clients, with the same statistic unless another is named."""
    headline = headline_of(summary)
    beside = replace(headline, model=model, data=data, metric=metric or headline.metric)
    return replace(beside, statistic=statistic or headline.statistic).of(summary.figures)


def _of_headline(data: str, headline: bool) -> list[Column]:
    """Return the columns on the main figure's test data: both models, the worst client, and how many clients
    improve."""
    return [
        *_pair(data, always=True, headline=headline),
        Column(MOST_FREQUENT, _level(data, of_numbers=False), data),
        Column(MEAN_OF_ROWS, _level(data, of_numbers=True), data),
        Column("worst\nclient", _worst(data), data),
        Column("improved\nover\ngeneric", _count(data, ""), data),
        Column("improved\nover local\nbaseline", _count(data, "_vs_local"), data),
    ]


def _pair(data: str, always: bool = False, headline: bool = False) -> list[Column]:
    return [
        Column("generic\nmodel", _cell(GENERIC, data), data, always=always),
        Column("own\nmodels", _cell(PERSONAL, data), data, always=always, headline=headline),
    ]


def _names_of_metrics(summaries: Sequence[Summary]) -> str:
    """Return the metric of the main figure, or "model" where the runs have several."""
    names = {metric_of(summary).said for summary in summaries}
    return printable(names.pop()).replace(" ", "\n") if len(names) == 1 else "model"


def _generic(group: Sequence[Summary]) -> str:
    derived = any(s.generic.derived for s in group)
    return over_seeds([of_all_samples(s) for s in group], writer(group)) + (DERIVED if derived else "")


def of_all_samples(summary: Summary) -> float | None:
    """Return the main figure's metric of the generic model over all samples of the common or of clients' test data."""
    metric = headline_of(summary).metric
    if metric == ACCURACY.name:
        return summary.generic.accuracy
    found = (MetricName(GENERIC, data, metric, "pooled").of(summary.figures) for data in ("common", "split"))
    return next((value for value in found if value is not None), None)


def writer(group: Sequence[Summary]) -> Callable[[object], str]:
    """Return the function that writes values of the main figure's metric."""
    return partial(written, metric=metric_of(group[0]))


def _worst(data: str) -> Cell:
    """Return a cell with the value of the worst client: the lowest, or the highest of a metric such as a loss."""

    def cell(group: Sequence[Summary]) -> str:
        worst = "minimum" if metric_of(group[0]).higher_is_better else "maximum"
        return over_seeds([_value(s, PERSONAL, data, statistic=worst) for s in group], writer(group))

    return cell


def _level(data: str, of_numbers: bool) -> Cell:
    """Return a cell with what a client has without any model: its most frequent class, or the mean of its numbers."""
    cell = _cell(MAJORITY, data)
    return lambda group: cell(group) if (headline_of(group[0]).metric in FROM_SUMS) == of_numbers else NOTHING


def _cell(model: str, data: str, statistic: str = "") -> Cell:
    """Return a function that writes the main figure of a model on these test data, or another statistic of it."""

    def cell(group: Sequence[Summary]) -> str:
        return over_seeds([_value(s, model, data, statistic=statistic) for s in group], writer(group))

    return cell


def _count(data: str, than: str) -> Cell:
    """Return a cell with the number of clients that improve, and of how many; over seeds the fewest and the most."""

    def cell(group: Sequence[Summary]) -> str:
        counts = [
            [_value(s, PERSONAL, data, statistic=f"{word}{than}_clients") for s in group]
            for word in ("better", "compared")
        ]
        better, compared = ([n for n in each if n is not None] for each in counts)
        if not better or not compared:
            return NOTHING
        return f"{counted(better)} of {counted(compared)}"

    return cell


def _of_model(model: str) -> Column:
    """Return the column of another personal model, or another choice of the adapted ones, on the headline's data."""
    title = printable(model).replace("@", ",\n").replace("_", "\n")

    def cell(group: Sequence[Summary]) -> str:
        found = ((headline_of(s), s.figures) for s in group)
        return over_seeds(
            [MetricName(model, h.data, h.metric, h.statistic).of(figures) for h, figures in found], writer(group)
        )

    return Column(title, cell)


def _of_measure(name: str) -> list[Column]:
    """Return the column of a metric of the personal models, and beside accuracy that of the most frequent class.

    It is on the main figure's data, else on clients' own, on the common test set, or on validation data.
    """
    known = METRICS.get(name)
    write = partial(written, metric=known) if known else number

    def column(title: str, model: str) -> Column:
        def value(summary: Summary) -> float | None:
            places = (headline_of(summary).data, "split", "common", "validation")
            found = (_value(summary, model, data, name, statistic) for data in places for statistic in ("", "pooled"))
            return next((v for v in found if v is not None), None)

        return Column(title, lambda group: over_seeds([value(s) for s in group], write))

    own = column(f"{printable(name)},\nown\nmodels", PERSONAL)
    return [own, column(f"{name},\n{MOST_FREQUENT}", MAJORITY)] if name == ACCURACY.name else [own]


def _of_generic(name: str) -> Column:
    """Return the column of a metric that only the generic model has, over all samples of clients' own or the common
    test data."""

    def value(summary: Summary) -> float | None:
        found = (MetricName(GENERIC, data, name, "pooled").of(summary.figures) for data in ("split", "common"))
        return next((v for v in found if v is not None), None)

    title = f"{printable(name)},\ngeneric\nmodel"
    return Column(title, lambda group: over_seeds([value(s) for s in group], number))


def _adapted(group: Sequence[Summary]) -> str:
    before, after = ([_value(s, model, headline_of(s).data) for s in group] for model in (BEFORE, AFTER))
    if all(value is None for value in after):
        return NOTHING
    told = [value for value in before if value is not None]
    write = writer(group)
    return f"{write(fmean(told)) if told else NOTHING:>5} → {over_seeds(after, write):>5}"


def _sent(group: Sequence[Summary]) -> str:
    downs, ups = ([getattr(s.bytes_per_round, way) for s in group] for way in ("down", "up"))
    return megabytes(*downs, *ups, runs=len(group))


def _others(summaries: Sequence[Summary], model: str) -> list[str]:
    """Return variants of a model that some run has, such as `personal@global_plus_personal`."""
    return sorted({f.model for f in _every(summaries) if f.model.startswith(variant(model, ""))})


def _measures(summaries: Sequence[Summary], model: str) -> list[str]:
    """Return a model's metrics besides the main figure's and the loss, in the order of the record.

    Accuracy, which is always there, is among those of personal models where it is not the main figure.
    """
    there = {headline_of(s).metric for s in summaries} | {LOSS.name} | ({ACCURACY.name} if model == GENERIC else set())
    return list(dict.fromkeys(f.metric for f in _every(summaries) if f.model == model and f.metric not in there))


def _every(summaries: Sequence[Summary]) -> list[MetricName]:
    return [figure for summary in summaries for name in summary.figures if (figure := MetricName.read(name))]
