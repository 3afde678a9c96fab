"""Tables of a comparison and of a tuning for the terminal, with the recommendation above and the protocol below."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from motet.io.text import printable, shortened
from motet.metrics.metric import ACCURACY, Metric
from motet.metrics.wording import (
    NOTHING,
    choices,
    left_out,
    megabytes,
    percent,
    signed_written,
    title_of_metric,
    written,
)
from motet.report.tables.layout import Packed, Prose
from motet.studies.comparison_file import (
    ComparisonFile,
    MethodDifference,
    MethodResult,
    NewClientScore,
    RecommendedMethod,
    Score,
    YardstickResult,
)
from motet.studies.tune import TuningFile

# -------- A tuning


def tuned_table(tuning: TuningFile) -> Group:
    """Return a line per method: what was chosen, its value on validation data, how many settings were tried."""
    metric = tuning.judged_by
    labels = [[printable(found.method)] for found in tuning.methods]
    cells = [[written(found.score, metric), str(len(found.trials))] for found in tuning.methods]
    values = "Accuracies in percent" if metric is ACCURACY else f"Values are {title_of_metric(metric)}"
    notes = [f"{values}: personal models on clients' validation data, mean over clients."]
    notes += [
        f"{printable(found.method)} has no result: {printable(found.failure)}."
        for found in tuning.methods
        if found.failure
    ]
    notes += [left_out(name, why) for name, why in tuning.left_out.items()]
    notes += [printable(note) for note in tuning.notes]
    table = Packed(["method"], labels, ["validation\n" + metric.said.replace(" ", "\n"), "settings\ntried"], cells)
    chosen = chosen_settings([(found.method, found.options) for found in tuning.methods if not found.failure])
    return Group(table, Text(), *chosen, *(Prose(note, "dim") for note in notes))


def chosen_settings(of: Iterable[tuple[str, Mapping[str, Any] | None]]) -> list[RenderableType]:
    """Return a paragraph per method with the setting that tuning chose for it; nothing where nothing was tuned."""
    found = [f"{printable(method)}: {choices(options)}" for method, options in of if options]
    return [Prose("Chosen:", "bold"), *map(Prose, found), Text()] if found else []


# -------- A comparison


RECOMMENDED, EQUAL, FAILED = "*", "~", " !"
OWN, INTERVAL = "own\nmodels", "95 %\ninterval"


def compared_table(comparison: ComparisonFile) -> Group:
    """Return a table with a line per method, the best first."""
    methods, answer = comparison.methods, comparison.recommended
    labels = [[printable(each.method) + _mark(each, answer) + FAILED * bool(each.warnings)] for each in methods]
    columns = {title: [write(each) for each in methods] for title, write in _columns(comparison.judged_by).items()}
    there = {title: cells for title, cells in columns.items() if any(cell != NOTHING for cell in cells)}
    cells = list(zip(*there.values(), strict=True))
    outside = [_outside(each, comparison.judged_by, list(there)) for each in comparison.yardsticks]
    labels += [[f"[{printable(each.name)}]"] for each in comparison.yardsticks]
    table = Packed(["method"], labels, list(there), [*cells, *outside])
    marks = (
        f"{RECOMMENDED} recommended; {EQUAL} beside a method: it may be as good as the best one; beside a difference: "
        f"it may be chance; {FAILED.strip()} beside a method: it failed, in all of its runs or some, as is said below."
    )
    if outside:
        marks += " In square brackets: what scikit-learn has on the same rows, no method of a federation."
    notes = [marks, *comparison.notes]
    return Group(
        Prose(title(answer), "bold"),
        *(Prose(printable(paragraph)) for paragraph in answer.paragraphs),
        Text(),
        table,
        Text(),
        *chosen_settings((each.method, each.options) for each in methods),
        *client_survey(comparison),
        *(Prose(printable(note), "dim") for note in notes),
    )


def _outside(found: YardstickResult, metric: Metric, titles: Sequence[str]) -> list[str]:
    """Return the cells of a yardstick from outside: its values, and dashes where only a method has something."""
    own = {OWN: _plus_minus(found.personal, metric), INTERVAL: _interval(found.personal.interval, metric)}
    return [own.get(title, NOTHING) for title in titles]


# -------- The survey of clients


MOST_CLIENTS = 30


def client_survey(comparison: ComparisonFile) -> list[RenderableType]:
    """Return a table with a line per client: what it has alone, with one model for all, and with its own model.

    Nothing where there are more clients than a screen shows, or nothing to compare with.
    """
    clients, metric = comparison.clients, comparison.judged_by
    if len(clients) > MOST_CLIENTS or all(each.alone is None and each.one_model is None for each in clients):
        return []
    less = (
        f"own less\n{comparison.compared_with}" if metric.higher_is_better else f"{comparison.compared_with}\nless own"
    )
    share = f"share of\n{shortened(printable(comparison.rare_class or ''), 12)}"
    columns: dict[str, list[str]] = {
        "train\nrows": [_count(each.train) for each in clients],
        "test\nrows": [_count(each.test) for each in clients],
        share: [f"{percent(each.rare)} %" if each.rare is not None else NOTHING for each in clients],
        "alone": [written(each.alone, metric) for each in clients],
        "one\nmodel": [written(each.one_model, metric) for each in clients],
        "own\nmodel": [written(each.own, metric) for each in clients],
        less: [_signed(each.difference, metric) for each in clients],
        "95 %\ninterval": [_signed_interval(each.interval, metric) for each in clients],
        "": [each.verdict or NOTHING for each in clients],
    }
    there = {name: cells for name, cells in columns.items() if any(cell != NOTHING for cell in cells)}
    table = Packed(
        ["client"], [[printable(each.name)] for each in clients], list(there), list(zip(*there.values(), strict=True))
    )
    method = printable(comparison.recommended.method)
    said = f"Clients: {title_of_metric(metric)} alone (local), with FedAvg's one model, and with a model of {method}."
    return [Prose(said, "bold"), Text(), table, Text()]


def _signed(value: float | None, metric: Metric) -> str:
    return NOTHING if value is None else signed_written(value, metric)


def _signed_interval(bounds: tuple[float, float] | None, metric: Metric) -> str:
    return NOTHING if bounds is None else f"{signed_written(bounds[0], metric)} to {signed_written(bounds[1], metric)}"


def title(answer: RecommendedMethod) -> str:
    """Return the recommendation as one line."""
    if answer.enough_evidence:
        return f"Recommended: {printable(answer.method)}"
    return f"Not enough evidence. Recommended provisionally: {printable(answer.method)}"


def _mark(each: MethodResult, answer: RecommendedMethod) -> str:
    if each.method == answer.method:
        return RECOMMENDED
    return EQUAL if each.method in answer.may_be_equal else ""


def _plus_minus(found: Score | None, metric: Metric) -> str:
    if found is None:
        return NOTHING
    return written(found.mean, metric) + ("" if found.std is None else f" ± {written(found.std, metric)}")


def _interval(bounds: tuple[float, float] | None, metric: Metric) -> str:
    return NOTHING if bounds is None else f"{written(bounds[0], metric)} to {written(bounds[1], metric)}"


def _difference(found: MethodDifference | None, metric: Metric) -> str:
    if found is None:
        return NOTHING
    return signed_written(found.mean, metric) + ("" if found.certain else EQUAL)


def _new(found: NewClientScore | None, metric: Metric) -> str:
    return NOTHING if found is None else f"{written(found.before, metric)} → {written(found.after, metric)}"


def _count(value: int | None) -> str:
    return NOTHING if value is None else str(value)


def _columns(metric: Metric) -> dict[str, Callable[[MethodResult], str]]:
    """Return the titles of the columns and how each writes a method's cell; values are of the metric."""
    return {
        OWN: lambda each: _plus_minus(each.personal, metric),
        INTERVAL: lambda each: _interval(each.personal.interval, metric),
        "over all\nrows": lambda each: written(each.pooled, metric),
        "to\nfedavg+ft": lambda each: _difference(each.difference, metric),
        "generic\nmodel": lambda each: _plus_minus(each.generic, metric),
        "worst\nclient": lambda each: written(each.worst_client, metric),
        "worse\nthan\nalone": lambda each: _count(each.hurt),
        "worse\nthan\nfedavg": lambda each: _count(each.hurt_vs_fedavg),
        "new clients\nbefore → after": lambda each: _new(each.new_clients, metric),
        "MB per\nround": lambda each: megabytes(each.bytes_per_round),
        "seconds": lambda each: f"{each.seconds:.1f}",
    }
