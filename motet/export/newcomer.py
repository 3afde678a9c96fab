"""A client that joins after the run: its model, and what it gains on data that the model has not seen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch

from motet.data.readers.raw import Array
from motet.errors import Diverged, MotetError
from motet.metrics.names import AFTER, BEFORE, GENERIC, MetricName
from motet.metrics.numbers import ALL
from motet.runs.raw_model import RawModel
from motet.runs.served_models import ServedModels
from motet.training.randomness import generator

VALIDATION = 0.25  # of the rows to learn from, for the choice between the models before and after
SMALLEST = 1e-12  # probability, so that a logarithm is finite
FEWEST = 4  # rows to learn from, below which nothing is left to choose by

Kept = Literal["before", "after"]


@dataclass(frozen=True)
class Newcomer:
    """The model of a new client, how many samples it learned from and was scored on, and its figures.

    The model is the better of what the client is served before it learns anything and of what it learned, chosen on
    validation rows among those that it learns from.
    """

    model: RawModel
    train: int
    test: int
    figures: dict[str, float]
    kept: Kept = "after"
    """Which of both models it is."""
    validation: dict[str, float] = field(default_factory=dict)
    """The accuracies by which it was chosen, of numbers the negative root mean squared errors; empty where there was
    nothing to choose, or too few rows."""


def from_samples(served: ServedModels, x: Array, y: Array, test_share: float, seed: int) -> Newcomer:
    """Return the better of the model before and after learning from these samples, except a share that scores it.

    A share of 0 scores nothing. The choice is made on validation rows, which the model that is kept then learns from.
    """
    train, test = _dealt(len(y), test_share, seed)
    kept, validation = _choice(served, x[train], y[train], seed)
    after, before = _learned(served, x[train], y[train]), served.before_adapting(x[train], y[train])
    model = after if after is not None and kept == AFTER else before
    if model is None:
        raise Diverged("the new client's training left the finite numbers; accepted: a smaller adapt.lr")
    kept = "after" if model is after else "before"
    models = {AFTER: after, BEFORE: before, GENERIC: _generic(served)}
    return Newcomer(model, len(train), len(test), _scores(models, x[test], y[test]), kept, validation)


def _choice(served: ServedModels, x: Array, y: Array, seed: int) -> tuple[Kept, dict[str, float]]:
    """Return which model is better on rows that it did not learn from, and the accuracies; the loss decides a tie."""
    if len(y) < FEWEST:
        return "after", {}
    learn, check = _dealt(len(y), VALIDATION, seed, "adapt-validation")
    before = served.before_adapting(x[learn], y[learn])
    if before is None:
        return "after", {}
    after = _learned(served, x[learn], y[learn])
    found = {name: _right_and_loss(model, x[check], y[check]) for name, model in ((BEFORE, before), (AFTER, after))}
    kept: Kept = "before" if found[BEFORE] > found[AFTER] else "after"
    return kept, {name: right for name, (right, _) in found.items()}


def _learned(served: ServedModels, x: Array, y: Array) -> RawModel | None:
    """Return the model that learned from these samples, or None if its training left the finite numbers."""
    try:
        return served.adapted(x, y)
    except Diverged:
        return None


def _right_and_loss(model: RawModel | None, x: Array, y: Array) -> tuple[float, float]:
    """Return the accuracy and the negative log loss, of two models the better has the larger pair; no model has 0.

    Of numbers, return the negative root mean squared error and 0.
    """
    if model is None:
        return (-np.inf if y.dtype.kind == "f" else 0.0), -np.inf
    if model.predicts_numbers:
        return -float(np.sqrt(np.mean((model.predict(x) - y) ** 2))), 0.0
    shares = model.predict_proba(x)
    chance = shares[np.arange(len(y)), y]
    return float((shares.argmax(1) == y).mean()), float(np.log(np.maximum(chance, SMALLEST)).mean())


def from_counts(served: ServedModels, counts: Sequence[int], scored_on: tuple[Array, Array] | None) -> Newcomer:
    """Return the model made from class counts alone; samples, if there are any, only score it."""
    model = served.adapted_to_counts(counts)
    if scored_on is None:
        return Newcomer(model, 0, 0, {})
    return Newcomer(model, 0, len(scored_on[1]), _scores({AFTER: model, GENERIC: _generic(served)}, *scored_on))


def _dealt(n: int, test_share: float, seed: int, purpose: str = "adapt-split") -> tuple[list[int], list[int]]:
    """Return which samples are for learning and which for the score; at least one of each."""
    if not 0 <= test_share < 1:
        raise MotetError(f"test share is {test_share}; accepted: 0 or more, below 1")
    order: list[int] = torch.randperm(n, generator=generator(seed, purpose)).tolist()
    if not test_share:
        return order, []
    if n < 2:
        raise MotetError(f"{n} sample cannot be dealt in two; accepted: more samples, or a test share of 0")
    held = min(n - 1, max(1, round(n * test_share)))
    return order[held:], order[:held]


def _generic(served: ServedModels) -> RawModel | None:
    try:
        return served.generic_model()
    except MotetError:  # the method has no generic model
        return None


def _scores(models: Mapping[str, RawModel | None], x: Array, y: Array) -> dict[str, float]:
    """Return the accuracy of each model, or R², RMSE and mean absolute error; nothing without samples."""
    there = {name: model for name, model in models.items() if model is not None and len(y)}
    if any(model.predicts_numbers for model in there.values()):
        made = {name: torch.from_numpy(model.predict(x)) for name, model in there.items()}
        found = {(n, m.name): m.value(said[:, None], torch.from_numpy(y)) for n, said in made.items() for m in ALL}
        return {str(MetricName(n, "split", metric)): value for (n, metric), value in found.items() if value is not None}
    return {
        str(MetricName(name, "split")): float((model.predict_proba(x).argmax(1) == y).mean())
        for name, model in there.items()
    }
