"""Which names a bench may ask its runs for: said before anything runs, because after it hours may be lost."""

from collections.abc import Sequence

from motet.expression import parse
from motet.plugins import is_import
from motet.runs.experiment import Experiment
from motet.runs.rows import ROUND, SUMMARY, SUMMARY_TOO
from motet.scoring.figures import (
    AFTER,
    BEFORE,
    DATA,
    DERIVED,
    GENERIC,
    OF_A_MEMBER,
    OF_A_RULE,
    PERSONAL,
    STATISTICS,
    Figure,
)
from motet.scoring.measures import MEASURES, OF_A_RUN

MODELS = (GENERIC, PERSONAL, BEFORE, AFTER, OF_A_MEMBER, OF_A_RULE)
_OF_GENERIC = {"accuracy", "derived"}
_OF_PERSONAL = {*STATISTICS, "readings"}


def could_be_there(name: str, experiments: Sequence[Experiment]) -> bool:
    """Whether a run of one of these may have a figure of this name."""
    kind, _, rest = name.partition(".")
    if kind == "last":
        return any(model.startswith(rest) or rest.startswith(model) for model in MODELS) and bool(rest)
    if kind == "curve":
        return _is_column(rest, experiments)
    return _is_figure(name, experiments) or _is_of_summary(name)


def _is_figure(name: str, experiments: Sequence[Experiment]) -> bool:
    figure = Figure.read(name)
    return bool(figure and figure.statistic and figure.model.startswith(MODELS) and _measured(figure, experiments))


def _measured(figure: Figure, experiments: Sequence[Experiment]) -> bool:
    """One of Motet's measures, with what it says of itself after a colon, or one of the user's own."""
    own = {text.rpartition(":")[2] for each in experiments for text in each.scoring.measures if is_import(text)}
    return figure.measure in own or figure.measure.partition(":")[0] in {*MEASURES, *OF_A_RUN}


def _is_column(name: str, experiments: Sequence[Experiment]) -> bool:
    """Of rounds.jsonl. What a method tells of itself begins with its name; of a user's own nobody knows before."""
    if _is_figure(name, experiments) or name in ROUND or name == DERIVED:
        return True
    terms = [term.name for each in experiments for term in parse(each.method)]
    told = {term.replace("-", "_").replace("+", "_") for term in terms} | set(OF_A_RUN)
    return any(map(is_import, terms)) or any(name.startswith(word) for word in told)


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
    return first in SUMMARY or first in SUMMARY_TOO
