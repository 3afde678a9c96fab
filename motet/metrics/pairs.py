"""Two models of one client on the same samples: how much one is better, and whether that may be chance.

A client compares its own model with the one it would have without it (the generic model, or for a new client the model
before adaptation) and sends three numbers. The samples themselves do not leave the client.

`personal.split.righted`         own test samples that its model alone gets right
`personal.split.wronged`         own test samples that the other model alone gets right
`personal.weighted.gain_error`   the standard error of the gain on the common test set, weighted by class
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor

from motet.messages.message import Message
from motet.metrics.metric import ACCURACY, Metric
from motet.metrics.names import OF_A_MEMBER, PERSONAL, MetricName
from motet.metrics.over_clients import INSTEAD_OF, SPLIT
from motet.metrics.statistics import normal_interval, paired_interval

_HITS, _CLASSES = "pairs.hits.", "pairs.classes."


@dataclass(frozen=True)
class Gain:
    """How much better a client's model is, with the 95 % interval if there is one."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def verdict(self) -> str:
        """The verdict: gain, lose, noise if the interval contains zero, or unknown without an interval."""
        if self.low is None or self.high is None:
            return "unknown"
        return "gain" if self.low > 0 else "lose" if self.high < 0 else "noise"


# ------------------------------------------------------------ at the client


def remember_hits(reply: Message, model: str, hits: Tensor) -> None:
    """Put into the reply which own test samples a model gets right; `compared` removes it."""
    reply[_HITS + model] = hits


def remember_classes(reply: Message, model: str, right: Tensor, counts: Tensor, weight: Tensor) -> None:
    """Put a model's right answers per class and the class weights into the reply; `compared` removes them."""
    reply[_CLASSES + model] = torch.stack([right.double(), counts.double(), weight.double()])


def compared(reply: Message) -> Message:
    """Return the reply with the numbers of every pair, and without what they were computed from."""
    result = {name: value for name, value in reply.items() if not name.startswith((_HITS, _CLASSES))}
    for name, value in reply.items():
        for kind in (_HITS, _CLASSES):
            if name.startswith(kind) and isinstance(value, Tensor):
                model = name.removeprefix(kind)
                other = reply.get(f"{kind}{instead_of(model)}")
                if isinstance(other, Tensor):
                    result |= _counts(model, value, other) if kind == _HITS else _error(model, value, other)
    return result


def instead_of(model: str) -> str:
    """Return the model that a client would have without this one; a family member counts as a personal model."""
    plain = PERSONAL if model.startswith(OF_A_MEMBER) else model.partition("@")[0]
    return INSTEAD_OF.get(plain, "")


def is_of_a_pair_of_members(column: str) -> bool:
    """Return whether a column compares a member of a family with the generic model."""
    return column.startswith(OF_A_MEMBER) and column.rpartition(".")[2] in ("righted", "wronged", "gain_error")


def _counts(model: str, mine: Tensor, other: Tensor) -> Message:
    righted, wronged = int((mine > other).sum()), int((other > mine).sum())
    return {_righted(model): righted, _wronged(model): wronged}


def _error(model: str, mine: Tensor, other: Tensor) -> Message:
    """Return the standard error of the gain as if the models were independent, which is rather too large.

    Half a sample is added to right and wrong ones, since a class without a mistake would have no error.
    """
    counts, weight = mine[1], mine[2]
    there = (counts > 0) & (weight > 0)
    share = weight[there] / weight[there].sum()
    shares_right = ((each[0][there] + 0.5) / (counts[there] + 1) for each in (mine, other))
    variance = sum(((share**2) * p * (1 - p) / counts[there]).sum() for p in shares_right)
    return {_gain_error(model): sqrt(float(variance))}


# ------------------------------------------------------------ from a row of the record


def gain(row: Mapping[str, object], model: str, data: str, metric: Metric = ACCURACY) -> Gain | None:
    """Return how much better a client's model is than the one it would have without it; None if one is missing.

    Only a gain in accuracy has an interval.
    """
    mine, other = (MetricName(each, data, metric.name).of(row) for each in (model, instead_of(model)))
    if mine is None or other is None:
        return None
    if metric is not ACCURACY:
        return Gain(metric.direction * (mine - other))
    if data == "split":
        righted, wronged, samples = (row.get(name) for name in (_righted(model), _wronged(model), SPLIT))
        if isinstance(samples, int) and samples:
            if isinstance(righted, int) and isinstance(wronged, int):
                return Gain(mine - other, *paired_interval(righted, wronged, samples))
            return _around(mine - other, sqrt((mine * (1 - mine) + other * (1 - other)) / samples))
    error = row.get(_gain_error(model))
    return _around(mine - other, error) if data == "weighted" and isinstance(error, int | float) else Gain(mine - other)


def _around(value: float, error: float) -> Gain:
    return Gain(value, *normal_interval(value, error))


def _righted(model: str) -> str:
    return f"{model}.split.righted"


def _wronged(model: str) -> str:
    return f"{model}.split.wronged"


def _gain_error(model: str) -> str:
    return f"{model}.weighted.gain_error"
