"""A client that joins after the run: its model, and what it gains on data that the model has not seen."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import nn

from motet.data.readers.raw import Array, Integers
from motet.errors import MotetError
from motet.metrics.names import AFTER, BEFORE, GENERIC, MetricName
from motet.runs.served_models import ServedModels
from motet.training.randomness import generator

BATCH = 1000


@dataclass(frozen=True)
class Newcomer:
    """The adapted model of a new client, how many samples it learned from and was scored on, and its figures."""

    model: nn.Module
    train: int
    test: int
    figures: dict[str, float]


def from_samples(served: ServedModels, x: Array, y: Integers, test_share: float, seed: int) -> Newcomer:
    """Return the model that learned from these samples, except a share that scores it; a share of 0 scores nothing."""
    train, test = _dealt(len(y), test_share, seed)
    model = served.adapted(x[train], y[train])
    models = {AFTER: model, BEFORE: served.before_adapting(x[train], y[train]), GENERIC: _generic(served)}
    return Newcomer(model, len(train), len(test), _scores(models, x[test], y[test]))


def from_counts(served: ServedModels, counts: Sequence[int], scored_on: tuple[Array, Integers] | None) -> Newcomer:
    """Return the model made from class counts alone; samples, if there are any, only score it."""
    model = served.adapted_to_counts(counts)
    if scored_on is None:
        return Newcomer(model, 0, 0, {})
    return Newcomer(model, 0, len(scored_on[1]), _scores({AFTER: model, GENERIC: _generic(served)}, *scored_on))


def _dealt(n: int, test_share: float, seed: int) -> tuple[list[int], list[int]]:
    """Return which samples are for learning and which for the score; at least one of each."""
    if not 0 <= test_share < 1:
        raise MotetError(f"test share is {test_share}; accepted: 0 or more, below 1")
    order: list[int] = torch.randperm(n, generator=generator(seed, "adapt-split")).tolist()
    if not test_share:
        return order, []
    if n < 2:
        raise MotetError(f"{n} sample cannot be dealt in two; accepted: more samples, or a test share of 0")
    held = min(n - 1, max(1, round(n * test_share)))
    return order[held:], order[:held]


def _generic(served: ServedModels) -> nn.Module | None:
    try:
        return served.generic_model()
    except MotetError:  # the method has no generic model
        return None


def _scores(models: dict[str, nn.Module | None], x: Array, y: Integers) -> dict[str, float]:
    if not len(y):
        return {}
    right = torch.from_numpy(y)
    found = {}
    for name, model in models.items():
        if model is not None:
            chosen = torch.cat([model(x[at : at + BATCH]).argmax(1) for at in range(0, len(y), BATCH)])
            found[str(MetricName(name, "split"))] = float((chosen == right).double().mean())
    return found
