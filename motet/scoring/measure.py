"""The kinds of measures that a client computes from logits and labels, at every scoring."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor


class NoFigure(Exception):
    """A measure of the user's own raised: that figure is missing, and nothing else."""


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
