"""Accuracy and loss, which are always there, and the share of samples whose class is among the first five."""

from torch import Tensor
from torch.nn.functional import cross_entropy

from motet.scoring.measure import PerSample


def _among_five(logits: Tensor, y: Tensor) -> Tensor:
    return (logits.topk(min(5, logits.shape[1]), 1).indices == y[:, None]).any(1)


def _cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    return cross_entropy(logits, y, reduction="none").double()  # they are added up


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
TOP5 = PerSample("top5", "share of samples whose class is among the five largest logits", "ILSVRC", right=_among_five)
