"""Metrics of numbers as targets: R², root mean squared error, mean absolute error, in the unit of the target.

All are those of scikit-learn. What is compared is the prediction and the number itself: `logits` has one column. Over
all clients' rows they are made from five sums of each client (`sums_of`), which are added up without its rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor

from motet.metrics.metric import SetMetric

Sums = Tensor
"""Of some rows: how many, the mean of their numbers, Σ(y − mean)², Σ(ŷ − y)², Σ|ŷ − y|."""


@dataclass(frozen=True)
class NumberMetric(SetMetric):
    """A metric of predicted numbers, computed from sums over rows."""

    of_sums: Callable[[Sums], float | None] = lambda sums: None


def sums_of(outputs: Tensor, y: Tensor) -> Sums:
    """Return the sums of some rows."""
    y, away = y.double(), outputs.double().reshape(-1) - y.double()
    mean = y.mean() if len(y) else torch.tensor(0.0, dtype=torch.float64)
    return torch.stack(
        [torch.tensor(float(len(y))), mean, (y - mean).square().sum(), away.square().sum(), away.abs().sum()]
    )


def added(parts: Sequence[Sums]) -> Sums:
    """Return the sums of all rows together, from those of their parts."""
    n, means, around, squares, sizes = torch.stack(list(parts)).double().T
    mean = (n * means).sum() / n.sum().clamp_min(1)
    return torch.stack([n.sum(), mean, (around + n * (means - mean).square()).sum(), squares.sum(), sizes.sum()])


def _r2(sums: Sums) -> float | None:
    """Return 1 − Σ(ŷ − y)² / Σ(y − mean)²; None for fewer than two rows, or rows that are all the same."""
    n, _, around, squares, _ = sums.tolist()
    return 1 - squares / around if n >= 2 and around > 0 else None


def _root_mean_square(sums: Sums) -> float | None:
    n, _, _, squares, _ = sums.tolist()
    return sqrt(squares / n) if n else None


def _mean_size(sums: Sums) -> float | None:
    n, _, _, _, sizes = sums.tolist()
    return sizes / n if n else None


def _of_rows(of: Callable[[Sums], float | None]) -> Callable[[Tensor, Tensor], float | None]:
    return lambda outputs, y: of(sums_of(outputs, y))


_PAPER = "as in scikit-learn"
R2 = NumberMetric(
    "r2",
    "share of the variance of the numbers that is predicted: 1 is perfect, 0 no better than their mean, of numbers "
    "as targets",
    _PAPER,
    percent=False,
    worst=-1.0,
    words="R²",
    value=_of_rows(_r2),
    of_sums=_r2,
)
RMSE = NumberMetric(
    "rmse",
    "root of the mean squared error, in the unit of the target, of numbers as targets",
    _PAPER,
    percent=False,
    higher_is_better=False,
    worst=None,
    words="RMSE",
    margin=0.0,
    value=_of_rows(_root_mean_square),
    of_sums=_root_mean_square,
)
MAE = NumberMetric(
    "mae",
    "mean absolute error, in the unit of the target, of numbers as targets",
    _PAPER,
    percent=False,
    higher_is_better=False,
    worst=None,
    words="mean absolute error",
    margin=0.0,
    value=_of_rows(_mean_size),
    of_sums=_mean_size,
)
ALL = (R2, RMSE, MAE)
