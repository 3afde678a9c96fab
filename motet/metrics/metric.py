"""What a metric of logits and labels is, and the built-in ones: accuracy, loss and top-5 accuracy."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import cross_entropy


class MetricFailed(Exception):
    """Raised when a user's own metric raises an error; only that figure is missing then."""


RELATIVE_MARGIN = 0.03
"""The part of a value that matters to a user, of metrics in a unit of their own such as euros."""


@dataclass(frozen=True)
class Metric:
    """What all kinds of metrics have in common."""

    name: str
    summary: str
    paper: str
    percent: bool = True  # how it is printed: a share as percent, or a plain number
    higher_is_better: bool = True
    worst: float | None = 0.0  # the value of a model that is not finite; None: the client is left out
    words: str = ""  # its name in a sentence, where that is another
    margin: float = 0.03  # a difference that matters to a user; 0: `RELATIVE_MARGIN` of the value, as it has a scale

    @property
    def said(self) -> str:
        """Its name in a sentence."""
        return self.words or self.name

    @property
    def is_share(self) -> bool:
        """Whether values lie between 0 and 1."""
        return self.percent

    @property
    def direction(self) -> int:
        """1 where higher values are better, −1 where lower ones are: times this, more is better."""
        return 1 if self.higher_is_better else -1


@dataclass(frozen=True)
class SampleMetric(Metric):
    """A metric that is a mean over samples: right or wrong, or a number for each sample."""

    right: Callable[[Tensor, Tensor], Tensor] = lambda logits, y: logits.argmax(1) == y
    counts: bool = True  # right or wrong; otherwise `right` is a number, which is averaged


@dataclass(frozen=True)
class SetMetric(Metric):
    """A metric that is one number for a whole set of samples, or None if it is undefined."""

    value: Callable[[Tensor, Tensor], float | None] = lambda logits, y: None


# -------- Accuracy, loss and top-5


def _among_five(logits: Tensor, y: Tensor) -> Tensor:
    return (logits.topk(min(5, logits.shape[1]), 1).indices == y[:, None]).any(1)


def _cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    return cross_entropy(logits, y, reduction="none").double()  # summed over many samples


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
    words="log loss",
    right=_cross_entropy,
    counts=False,
)
TOP5 = SampleMetric(
    "top5", "share of samples whose class is among the five largest logits", "ILSVRC", right=_among_five
)
