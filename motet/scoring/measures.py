"""The measures: what a client computes from logits and labels, and how the value is read.

`PerSample` says something of every sample, so that samples and classes can be weighted afterwards (Eq. 20);
`OfASet` is one number for a whole set of samples. A user's own is a function of the latter kind, `module:function` or
`path/file.py:function`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import torch
from torch import Tensor

from motet.errors import MotetError, unknown
from motet.plugins import is_import, load_object
from motet.scoring.calibration import ece, mce
from motet.scoring.figures import BENIGN, DATA, STATISTICS


@dataclass(frozen=True)
class Measure:
    """What is said of a measure whatever its kind."""

    name: str
    summary: str
    paper: str
    percent: bool = True  # how it is printed: a share as percent, or a plain number
    higher_is_better: bool = True
    worst: float | None = 0.0  # the value of a model that left the finite numbers; None: it is left out


@dataclass(frozen=True)
class PerSample(Measure):
    """Right or wrong, sample by sample; or a number of each."""

    right: Callable[[Tensor, Tensor], Tensor] = lambda logits, y: logits.argmax(1) == y
    counts: bool = True  # right or wrong; else `right` is a number, of which the mean counts


@dataclass(frozen=True)
class OfASet(Measure):
    """One number for all samples of a set; None where there is none."""

    value: Callable[[Tensor, Tensor], float | None] = lambda logits, y: None


def _among_five(logits: Tensor, y: Tensor) -> Tensor:
    return (logits.topk(min(5, logits.shape[1]), 1).indices == y[:, None]).any(1)


def _calibration(error: Callable[[Tensor, Tensor], float | None]) -> Callable[[Tensor, Tensor], float | None]:
    def of_logits(logits: Tensor, y: Tensor) -> float | None:
        confidence, said = torch.softmax(logits, 1).max(1)
        return error(confidence, said == y)

    return of_logits


def _cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    return torch.nn.functional.cross_entropy(logits, y, reduction="none").double()  # they are added up


ACCURACY = PerSample("accuracy", "share of samples whose class is the largest logit; always there", "every paper here")
LOSS = PerSample(
    "loss",
    "mean cross-entropy; always there, of models that stayed among the finite numbers",
    "every paper here",
    percent=False,
    higher_is_better=False,
    worst=None,
    right=_cross_entropy,
    counts=False,
)
_MORE: tuple[Measure, ...] = (
    PerSample("top5", "share of samples whose class is among the five largest logits", "ILSVRC", right=_among_five),
    OfASet(
        "ece",
        "expected calibration error: by how much confidence and accuracy differ, over 15 bins of confidence",
        "Naeini, Cooper and Hauskrecht, AAAI 2015; reported by SuPerFed",
        higher_is_better=False,
        worst=1.0,
        value=_calibration(ece),
    ),
    OfASet(
        "mce",
        "maximum calibration error: the same for the bin in which they differ most",
        "Naeini, Cooper and Hauskrecht, AAAI 2015; reported by SuPerFed",
        higher_is_better=False,
        worst=1.0,
        value=_calibration(mce),
    ),
)
MEASURES = {measure.name: measure for measure in (ACCURACY, LOSS, *_MORE)}


def measures_of(asked: Sequence[str]) -> tuple[Measure, ...]:
    """Accuracy and loss, and the measures asked for, in their order."""
    found: dict[str, Measure] = {ACCURACY.name: ACCURACY, LOSS.name: LOSS}
    for text in asked:
        measure = _own(text) if is_import(text) else MEASURES.get(text)
        if measure is None:
            raise unknown("measure (scoring.measures)", text, MEASURES)
        if measure.name in found and found[measure.name] is not measure:
            raise MotetError(f"scoring.measures has two measures named {measure.name!r}; accepted: each name once")
        found[measure.name] = measure
    return tuple(found.values())


def measure_named(name: str) -> Measure | None:
    """One of Motet's measures; None for a user's own."""
    return MEASURES.get(name)


def describe_measures() -> list[dict[str, Any]]:
    """Name, summary and paper of every measure, for a list or for JSON."""
    return [{"name": m.name, "summary": m.summary, "paper": m.paper} for m in MEASURES.values()]


def _own(text: str) -> Measure:
    """A user's function of logits and labels; `function.higher_is_better = False` says that it is an error."""
    function = load_object(text, "measure (scoring.measures)")
    if not callable(function):
        raise MotetError(f"scoring.measures: {text} is no function; accepted: one of logits and labels")
    name = text.rpartition(":")[2].rpartition(".")[2]
    if name in MEASURES or name in STATISTICS or name in DATA or name == BENIGN:
        raise MotetError(f"scoring.measures: {text} bears a name of Motet's own; accepted: a function of another name")

    def value(logits: Tensor, y: Tensor) -> float | None:
        found = function(logits, y)
        try:
            number = float(found)
        except (TypeError, ValueError):
            raise MotetError(f"measure {text} gave {type(found).__name__}; accepted: a number") from None
        return number if isfinite(number) else None

    better = bool(getattr(function, "higher_is_better", True))
    return OfASet(name, "", text, percent=False, higher_is_better=better, worst=None, value=value)
