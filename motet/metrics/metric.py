"""Accuracy and loss, which are always there, and the share of samples whose class is among the first five."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import cross_entropy

# -------- The kinds of metrics that a client computes from logits and labels, at every scoring


class MetricFailed(Exception):
    """A metric of the user's own raised: that figure is missing, and nothing else."""


@dataclass(frozen=True)
class Metric:
    """What is said of a metric whatever its kind."""

    name: str
    summary: str
    paper: str
    percent: bool = True  # how it is printed: a share as percent, or a plain number
    higher_is_better: bool = True
    worst: float | None = 0.0  # the value of a model that left the finite numbers; None: it is left out


@dataclass(frozen=True)
class SampleMetric(Metric):
    """Right or wrong, sample by sample; or a number of each."""

    right: Callable[[Tensor, Tensor], Tensor] = lambda logits, y: logits.argmax(1) == y
    counts: bool = True  # right or wrong; else `right` is a number, of which the mean counts


@dataclass(frozen=True)
class SetMetric(Metric):
    """One number for all samples of a set; None where there is none."""

    value: Callable[[Tensor, Tensor], float | None] = lambda logits, y: None


# -------- Accuracy and loss, which are always there, and the share of samples whose class is among the first five


def _among_five(logits: Tensor, y: Tensor) -> Tensor:
    return (logits.topk(min(5, logits.shape[1]), 1).indices == y[:, None]).any(1)


def _cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    return cross_entropy(logits, y, reduction="none").double()  # they are added up


ACCURACY = SampleMetric(
    "accuracy", "share of samples whose class is the largest logit; always there", "every paper here"
)
LOSS = SampleMetric(
    "loss",
    "mean cross-entropy; always there, of models that stayed among the finite numbers",
    "every paper here",
    percent=False,
    higher_is_better=False,
    worst=None,
    right=_cross_entropy,
    counts=False,
)
TOP5 = SampleMetric(
    "top5", "share of samples whose class is among the five largest logits", "ILSVRC", right=_among_five
)
