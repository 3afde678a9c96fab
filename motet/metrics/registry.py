"""The measures by name, and a user's own: what an experiment asks for in `scoring.measures`.

Most are of logits and labels and computed at every scoring, by the client (`motet/metrics/metric.py`). Some are of a
whole run and found once at its end (`motet/metrics/run_metric.py`); these may have options, as in `mdl(layer=fc1)`. A
user's own is a function of logits and labels, `module:function` or `path/file.py:function`.
"""

import traceback
from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Any

from torch import Tensor

from motet.config.names import Term, parse
from motet.config.section import checked
from motet.errors import MotetError, unknown
from motet.io.plugins import is_import, load_object
from motet.metrics.calibration import ECE, MCE, Calibration
from motet.metrics.cross_client import CrossClient
from motet.metrics.mdl import MDL
from motet.metrics.metric import ACCURACY, LOSS, TOP5, Measure, NoFigure, OfASet, PerSample
from motet.metrics.names import BENIGN, DATA, STATISTICS
from motet.metrics.rounds_to import RoundsTo
from motet.metrics.run_metric import OfARun
from motet.metrics.update_variance import UpdateVariance

__all__ = [
    "ACCURACY",
    "LOSS",
    "MEASURES",
    "OF_A_RUN",
    "Measure",
    "OfASet",
    "PerSample",
    "describe_measures",
    "measures_of",
    "measures_of_a_run",
    "require_measures",
]

MEASURES: dict[str, Measure] = {measure.name: measure for measure in (ACCURACY, LOSS, TOP5, ECE, MCE)}
OF_A_RUN: dict[str, type[OfARun]] = {
    measure.name: measure for measure in (Calibration, CrossClient, MDL, RoundsTo, UpdateVariance)
}
_FIELD = "measure (scoring.measures)"
_told: set[str] = set()  # whose traceback this process has shown


def measures_of(asked: Sequence[str]) -> tuple[Measure, ...]:
    """Accuracy and loss, and the measures of logits that are asked for, in their order."""
    found: dict[str, Measure] = {ACCURACY.name: ACCURACY, LOSS.name: LOSS}
    for text in asked:
        measure = _own(text) if is_import(text) else _of_logits(_term(text))
        if measure is None:
            continue
        if measure.name in found and found[measure.name] is not measure:
            raise MotetError(f"scoring.measures has two measures named {measure.name!r}; accepted: each name once")
        found[measure.name] = measure
    return tuple(found.values())


def measures_of_a_run(asked: Iterable[str]) -> tuple[OfARun, ...]:
    """The measures of a whole run that are asked for, in their order; what is asked for twice is there once."""
    terms = [_term(text) for text in asked if not is_import(text)]
    found = [checked(OF_A_RUN[t.name], t.options, f"measure {t.name}") for t in terms if t.name in OF_A_RUN]
    return tuple(dict.fromkeys(found))


def require_measures(asked: Sequence[str]) -> None:
    """Refuse a name or an option that no measure has, for who asks long before anything is measured."""
    measures_of(asked)
    measures_of_a_run(asked)


def describe_measures() -> list[dict[str, Any]]:
    """Name, summary and paper of every measure, for a list or for JSON; last, what is told of each over clients."""
    of_logits = [{"name": m.name, "summary": m.summary, "paper": m.paper} for m in MEASURES.values()]
    of_a_run = [
        {
            "name": kind.name,
            "summary": f"{kind.summary} (once, at the end)",
            "paper": kind.paper,
            "options": {name: info.default for name, info in kind.model_fields.items()},
        }
        for kind in OF_A_RUN.values()
    ]
    over_clients = [
        {"name": f".{name}", "summary": f"of every measure, always there: {words}", "paper": _PAPERS.get(name, "")}
        for name, words in STATISTICS.items()
        if name in _PAPERS
    ]
    return [*of_logits, *of_a_run, *over_clients]


_PAPERS = {
    "std": "spread over clients; q-FFL, Li et al. 2020",
    "minimum": "the worst client",
    "worst_tenth": "q-FFL, Li et al. 2020",
    "hurt": "Yu et al. 2020",
    "hurt_vs_local": "with a run of `local` beside it (motet show --local)",
    "gain_vs_local": "PGFed, Luo et al. 2023: individual gain",
    "gain_vs_local_std": "PGFed, Luo et al. 2023",
}


def _term(text: str) -> Term:
    """A name with its options."""
    terms = parse(text, _FIELD, "ece or mdl(layer=fc1)")
    if len(terms) > 1:
        raise MotetError(f"{_FIELD} {text!r} is a sum; accepted: one name, each in a --measure of its own")
    if terms[0].name not in {**MEASURES, **OF_A_RUN}:
        raise unknown(_FIELD, terms[0].name, [*MEASURES, *OF_A_RUN])
    return terms[0]


def _of_logits(term: Term) -> Measure | None:
    """None for a measure of a run."""
    measure = MEASURES.get(term.name)
    if measure is not None and term.options:
        raise MotetError(f"{_FIELD} {term} has options; accepted: {term.name}, which takes none")
    return measure


def _own(text: str) -> Measure:
    """A user's function of logits and labels; `function.higher_is_better = False` says that it is an error."""
    function = load_object(text, _FIELD)
    if not callable(function):
        raise MotetError(f"scoring.measures: {text} is no function; accepted: one of logits and labels")
    name = text.rpartition(":")[2].rpartition(".")[2]
    if name in MEASURES or name in OF_A_RUN or name in STATISTICS or name in DATA or name == BENIGN:
        raise MotetError(f"scoring.measures: {text} bears a name of Motet's own; accepted: a function of another name")

    def value(logits: Tensor, y: Tensor) -> float | None:
        try:
            found = function(logits, y)
        except Exception as error:  # whatever his function does: no measure is worth a run
            if text not in _told:
                _told.add(text)
                traceback.print_exception(error)
            raise NoFigure(text) from error
        try:
            number = float(found)
        except (TypeError, ValueError):
            raise MotetError(f"measure {text} gave {type(found).__name__}; accepted: a number") from None
        return number if isfinite(number) else None

    better = bool(getattr(function, "higher_is_better", True))
    return OfASet(name, "", text, percent=False, higher_is_better=better, worst=None, value=value)
