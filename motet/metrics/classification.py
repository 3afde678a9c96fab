"""Metrics for classes of unequal size: AUROC, average precision, F1, balanced accuracy, precision, recall, Brier score.

All are those of scikit-learn. With two classes, average precision, F1, precision and recall are of the second class
(scikit-learn's `pos_label=1`): classes are in the order of their names, so that of "no" and "yes" it is "yes". With
more classes they are means over classes, each alike (`macro`); AUROC and average precision set each class against all
others, over the classes for which there are rows of both kinds.

AUROC and average precision need the ranks of scores alone, the others the confusion counts alone. Both can be added up
over clients, which gives the figure over all clients' rows at once (`motet/metrics/pooling.py`).
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from motet.metrics.metric import SampleMetric, SetMetric

Levels = Tensor
"""Rows of each kind by score, from the lowest score to the highest: one row (positive, negative) per level."""
Confusion = Tensor
"""How many rows of class i (rows) were answered with class j (columns)."""


@dataclass(frozen=True)
class RankMetric(SetMetric):
    """A metric of the order of scores, computed from the levels of one class against the others."""

    of_levels: Callable[[Levels], float | None] = lambda levels: None

    @property
    def is_share(self) -> bool:
        """Whether values lie between 0 and 1: they do."""
        return True


@dataclass(frozen=True)
class CountMetric(SetMetric):
    """A metric of the answers, computed from confusion counts."""

    of_counts: Callable[[Confusion], float | None] = lambda counts: None


# -------- Scores and ranks


def scores_of(logits: Tensor) -> Tensor:
    """Return the scores that are ranked: the probability of the second of two classes, or of each of several."""
    probabilities = torch.softmax(logits.double(), 1)
    return probabilities[:, 1:] if logits.shape[1] == 2 else probabilities


def levels_of(score: Tensor, positive: Tensor) -> Levels:
    """Return how many positive and negative rows have each score."""
    values, level = torch.unique(score, return_inverse=True)
    kinds = (positive.double(), (~positive).double())
    return torch.stack([torch.bincount(level, weights=kind, minlength=len(values)) for kind in kinds], 1)


def area_under_roc(levels: Levels) -> float | None:
    """Return the share of pairs of a positive and a negative row in which the positive has the higher score.

    A tie counts half. None where there is no such pair.
    """
    positive, negative = levels.T
    pairs = float(positive.sum() * negative.sum())
    if not pairs:
        return None
    below = negative.cumsum(0) - negative
    return float((positive * (below + negative / 2)).sum()) / pairs


def precision_over_recall(levels: Levels) -> float | None:
    """Return Σ (R_n − R_{n−1})·P_n over thresholds n from the highest score to the lowest: average precision."""
    positive, negative = levels.flip(0).T
    if not positive.sum() or not negative.sum():
        return None
    right = positive.cumsum(0)
    precision = right / (right + negative.cumsum(0)).clamp_min(1)  # levels above all rows are empty
    return float((positive * precision).sum() / positive.sum())


def macro(scores: Tensor, y: Tensor, of_levels: Callable[[Levels], float | None]) -> float | None:
    """Return a metric of ranks: of the second of two classes, or the mean over each class against all others."""
    classes = [1] if scores.shape[1] == 1 else range(scores.shape[1])
    return mean_over_classes([of_levels(levels_of(scores[:, i], y == c)) for i, c in enumerate(classes)])


def mean_over_classes(values: list[float | None]) -> float | None:
    """Return the mean over the classes that have a value; None where none has."""
    there = [value for value in values if value is not None]
    return sum(there) / len(there) if there else None


# -------- Confusion counts


def confusion(logits: Tensor, y: Tensor) -> Confusion:
    """Return how many rows of each class were answered with each class, the largest logit."""
    classes = logits.shape[1]
    return torch.bincount(y * classes + logits.argmax(1), minlength=classes**2).reshape(classes, classes)


def _balanced_accuracy(counts: Confusion) -> float | None:
    rows = counts.sum(1)
    there = rows > 0
    return float((counts.diag()[there] / rows[there].double()).mean()) if there.any() else None


def _of_classes(of: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Callable[[Confusion], float | None]:
    """Return a metric of the second of two classes, or the mean over all classes that were there or answered.

    `of` takes right answers, rows and answers of each class. A class that is there and never answered has 0. Of two
    classes the second must be there: without any of its rows there is nothing to find.
    """

    def value(counts: Confusion) -> float | None:
        right, rows, answers = (each.double() for each in (counts.diag(), counts.sum(1), counts.sum(0)))
        found = torch.nan_to_num(of(right, rows, answers), nan=0.0)
        if len(counts) == 2:
            return float(found[1]) if rows[1] else None
        there = rows + answers > 0
        return float(found[there].mean()) if there.any() else None

    return value


def _of_logits(of_counts: Callable[[Confusion], float | None]) -> Callable[[Tensor, Tensor], float | None]:
    def value(logits: Tensor, y: Tensor) -> float | None:
        if not bool(torch.isfinite(logits).all()):
            return None if of_counts(confusion(torch.zeros_like(logits), y)) is None else float("nan")
        return of_counts(confusion(logits, y))

    return value


def _of_ranks(of_levels: Callable[[Levels], float | None]) -> Callable[[Tensor, Tensor], float | None]:
    def value(logits: Tensor, y: Tensor) -> float | None:
        if not bool(torch.isfinite(logits).all()):
            return None if macro(torch.zeros_like(scores_of(logits)), y, of_levels) is None else float("nan")
        return macro(scores_of(logits), y, of_levels)

    return value


# -------- Brier score


def _squared_errors(logits: Tensor, y: Tensor) -> Tensor:
    """Return Σ_c (p_c − 1[y = c])² of each row; of two classes only that of the second."""
    p = torch.softmax(logits.double(), 1)
    errors = (p - torch.nn.functional.one_hot(y, logits.shape[1]).double()) ** 2
    return errors[:, 1] if logits.shape[1] == 2 else errors.sum(1)


# -------- The metrics


_PAPER = "as in scikit-learn"


def _rank_metric(name: str, words: str, summary: str, worst: float, of: Callable[[Levels], float | None]) -> RankMetric:
    return RankMetric(name, summary, _PAPER, percent=False, worst=worst, words=words, value=_of_ranks(of), of_levels=of)


def _count_metric(name: str, words: str, summary: str, of: Callable[[Confusion], float | None]) -> CountMetric:
    return CountMetric(name, summary, _PAPER, words=words, value=_of_logits(of), of_counts=of)


_SECOND = "of the second of two classes, mean over classes if there are more"
AUROC = _rank_metric(
    "auroc",
    "AUROC",
    "how often a row of a class has a higher score than one of another: area under the ROC curve; mean over classes",
    0.5,
    area_under_roc,
)
AVERAGE_PRECISION = _rank_metric(
    "average_precision",
    "average precision",
    f"precision over all thresholds, weighted by recall, {_SECOND}",
    0.0,
    precision_over_recall,
)
BALANCED_ACCURACY = _count_metric(
    "balanced_accuracy",
    "balanced accuracy",
    "mean over classes of the share of their rows that is right",
    _balanced_accuracy,
)
F1 = _count_metric(
    "f1",
    "F1",
    f"harmonic mean of precision and recall, {_SECOND}",
    _of_classes(lambda right, rows, answers: 2 * right / (rows + answers)),
)
PRECISION = _count_metric(
    "precision",
    "precision",
    f"share of right ones among the answers with a class, {_SECOND}",
    _of_classes(lambda right, rows, answers: right / answers),
)
RECALL = _count_metric(
    "recall",
    "recall",
    f"share of a class's rows that is found, {_SECOND}",
    _of_classes(lambda right, rows, answers: right / rows),
)
BRIER = SampleMetric(
    "brier",
    "mean squared error of the probabilities, of the second of two classes, summed over classes if there are more",
    "Brier 1950; as in scikit-learn",
    percent=False,
    higher_is_better=False,
    worst=1.0,
    words="Brier score",
    right=_squared_errors,
    counts=False,
)
ALL = (AUROC, AVERAGE_PRECISION, F1, BALANCED_ACCURACY, PRECISION, RECALL, BRIER)
