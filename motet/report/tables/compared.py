"""Tables of a comparison and of a tuning for the terminal, with the recommendation above and the protocol below."""

from collections.abc import Callable

from rich.console import Group
from rich.text import Text

from motet.io.text import printable
from motet.metrics.wording import NOTHING, choices, left_out, megabytes, percent, signed
from motet.report.tables.layout import Packed, Prose
from motet.studies.comparison_file import (
    ComparisonFile,
    MethodDifference,
    MethodResult,
    NewClientScore,
    RecommendedMethod,
    Score,
)
from motet.studies.tune import TuningFile

# -------- A tuning


def tuned_table(tuning: TuningFile) -> Group:
    """Return a line per method: what was chosen, its accuracy on validation data, how many settings were tried."""
    labels = [[printable(found.method)] for found in tuning.methods]
    cells = [
        [choices(found.options) if found.options else NOTHING, percent(found.score), str(len(found.trials))]
        for found in tuning.methods
    ]
    notes = ["Accuracies in percent: personal models on clients' validation data, mean over clients."]
    notes += [
        f"{printable(found.method)} has no result: {printable(found.failure)}."
        for found in tuning.methods
        if found.failure
    ]
    notes += [left_out(name, why) for name, why in tuning.left_out.items()]
    notes += [printable(note) for note in tuning.notes]
    table = Packed(["method"], labels, ["chosen", "validation\naccuracy", "settings\ntried"], cells)
    return Group(table, Text(), *(Prose(note, "dim") for note in notes))


# -------- A comparison


RECOMMENDED, EQUAL, FAILED = "*", "~", " !"


def compared_table(comparison: ComparisonFile) -> Group:
    """Return a table with a line per method, the best first."""
    methods, answer = comparison.methods, comparison.recommended
    labels = [[printable(each.method) + _mark(each, answer) + FAILED * bool(each.warnings)] for each in methods]
    columns = {title: [write(each) for each in methods] for title, write in _COLUMNS.items()}
    there = {title: cells for title, cells in columns.items() if any(cell != NOTHING for cell in cells)}
    table = Packed(["method"], labels, list(there), list(zip(*there.values(), strict=True)))
    marks = (
        f"{RECOMMENDED} recommended; {EQUAL} beside a method: it may be as good as the best one; beside a difference: "
        f"it may be chance; {FAILED.strip()} beside a method: it failed in a way that is said below."
    )
    notes = [marks, *comparison.notes]
    return Group(
        Prose(title(answer), "bold"),
        Prose(printable(answer.reason)),
        Text(),
        table,
        Text(),
        *(Prose(printable(note), "dim") for note in notes),
    )


def title(answer: RecommendedMethod) -> str:
    """Return the recommendation as one line."""
    if answer.enough_evidence:
        return f"Recommended: {printable(answer.method)}"
    return f"Not enough evidence. Recommended provisionally: {printable(answer.method)}"


def _mark(each: MethodResult, answer: RecommendedMethod) -> str:
    if each.method == answer.method:
        return RECOMMENDED
    return EQUAL if each.method in answer.may_be_equal else ""


def _plus_minus(found: Score | None) -> str:
    if found is None:
        return NOTHING
    return percent(found.mean) + ("" if found.std is None else f" ± {percent(found.std)}")


def _interval(bounds: tuple[float, float] | None) -> str:
    return NOTHING if bounds is None else f"{percent(bounds[0])} to {percent(bounds[1])}"


def _difference(found: MethodDifference | None) -> str:
    if found is None:
        return NOTHING
    return signed(found.mean) + ("" if found.certain else EQUAL)


def _new(found: NewClientScore | None) -> str:
    return NOTHING if found is None else f"{percent(found.before)} → {percent(found.after)}"


def _count(value: int | None) -> str:
    return NOTHING if value is None else str(value)


_COLUMNS: dict[str, Callable[[MethodResult], str]] = {
    "own\nmodels": lambda each: _plus_minus(each.personal),
    "95 %\ninterval": lambda each: _interval(each.personal.interval),
    "to\nfedavg+ft": lambda each: _difference(each.difference),
    "generic\nmodel": lambda each: _plus_minus(each.generic),
    "worst\nclient": lambda each: percent(each.worst_client),
    "worse\nthan\nalone": lambda each: _count(each.hurt),
    "worse\nthan\nfedavg": lambda each: _count(each.hurt_vs_fedavg),
    "new clients\nbefore → after": lambda each: _new(each.new_clients),
    "MB per\nround": lambda each: megabytes(each.bytes_per_round),
    "seconds": lambda each: f"{each.seconds:.1f}",
    "chosen": lambda each: choices(each.options),
}
