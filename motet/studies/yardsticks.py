"""Yardsticks from outside: what a user has without Motet, on the same rows.

`pooled` is scikit-learn on everybody's rows in one place, a logistic regression (of numbers, a ridge regression) and
gradient boosting; `alone` is the better of the two at each client, by that client's validation rows. Like every method
they are tuned on validation rows, then learn from training and validation rows, and are scored on the test rows of each
client. They see the columns as the nets do. None is a method that a federation could choose.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
from torch import Tensor

from motet.config.experiment import Experiment
from motet.data import ClientData, FederationFacts, Samples, build
from motet.metrics.metric import Metric, SampleMetric, SetMetric
from motet.metrics.numbers import RMSE
from motet.metrics.registry import LOSS, headline_metric

POOLED_LINEAR, POOLED_TREES, ALONE = "pooled logistic regression", "pooled boosting", "alone (scikit-learn)"
ALONE_LINEAR = "alone, logistic regression"
NAMES = (POOLED_LINEAR, POOLED_TREES, ALONE, ALONE_LINEAR)
MOST_NUMBERS = 50_000_000
"""Of everybody's training rows: more takes too long for a yardstick."""
MOST_COLUMNS_OF_TREES = 500
FEWEST_ROWS_OF_TREES = 40
"""A client with fewer training rows is not given gradient boosting, which cannot split them."""
_SMALLEST = 1e-12

Floats = npt.NDArray[np.float64]
Column = dict[int, float]
"""Each client's value on one split."""


@dataclass(frozen=True)
class Outside:
    """The values of a yardstick, a column per last run of a method, and which setting was chosen on each split."""

    name: str
    columns: tuple[Column, ...]
    settings: tuple[str, ...]


def measure_yardsticks(splits: Sequence[tuple[Experiment, int]]) -> list[Outside]:
    """Return the yardsticks on these splits of the data; the number beside each is how many columns it has.

    Data that are no vectors, or too many, have none.
    """
    found: dict[str, list[tuple[Column, str]]] = {}
    times = []
    for experiment, runs in splits:
        rows = _rows(experiment)
        if rows is None:
            return []
        metric = headline_metric(experiment.scoring)
        with threadpool_limits(1):  # threads that wait for each other on a busy machine take many times as long
            measured = _on_split(rows, metric, experiment.seed)
        for name, column in measured.items():
            name = name if rows.classes else name.replace("logistic", "ridge")
            found.setdefault(name, []).append(column)
        times.append(runs)
    return [
        Outside(
            name,
            tuple(column for (column, _), runs in zip(each, times, strict=True) for _ in range(runs)),
            tuple(setting for _, setting in each),
        )
        for name, each in found.items()
        if len(each) == len(splits)
    ]


# ------------------------------------------------------------ rows


@dataclass(frozen=True)
class SomeRows:
    """Some rows as scikit-learn takes them."""

    x: Floats
    y: npt.NDArray[Any]
    """Numbers of classes, or the numbers to predict."""

    def __add__(self, other: "SomeRows") -> "SomeRows":
        return SomeRows(np.concatenate([self.x, other.x]), np.concatenate([self.y, other.y]))

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True)
class ClientRows:
    """The rows of one client."""

    id: int
    train: SomeRows
    val: SomeRows
    test: SomeRows


@dataclass(frozen=True)
class Rows:
    """The rows of all training clients, and how many classes there are; 0 where the label is a number."""

    clients: tuple[ClientRows, ...]
    classes: int

    def together(self) -> tuple[SomeRows, SomeRows]:
        """Return everybody's training and validation rows."""
        return _joined([c.train for c in self.clients]), _joined([c.val for c in self.clients])


def _joined(parts: Sequence[SomeRows]) -> SomeRows:
    return SomeRows(np.concatenate([part.x for part in parts]), np.concatenate([part.y for part in parts]))


def _rows(experiment: Experiment) -> Rows | None:
    """Return the rows of an experiment's clients; None where they are no vectors or too many."""
    federation = build(experiment.data, experiment.seed)
    facts = FederationFacts.of(federation)
    if federation.input.kind == "tokens":
        return None
    width = int(np.prod(federation.input.shape))
    total = sum(facts.by_id[i].train for i in facts.training_ids)
    if total * width > MOST_NUMBERS:
        return None
    classes = 0 if federation.target else federation.classes
    return Rows(tuple(_client(federation.clients[i]) for i in facts.training_ids), classes)


def _client(client: ClientData) -> ClientRows:
    return ClientRows(client.id, _part(client.train), _part(client.val), _part(client.test))


def _part(samples: Samples) -> SomeRows:
    if not len(samples):
        width = int(np.prod(samples.prepare.input.shape))
        return SomeRows(np.zeros((0, width)), samples.y.numpy()[:0])
    x = torch.cat([x.flatten(1) for x, _ in samples.all_batches(2000)]).double().numpy()
    return SomeRows(x, samples.y.numpy())


# ------------------------------------------------------------ models


Fit = Callable[[SomeRows], "Answer"]
Answer = Callable[[Floats], Tensor]
"""Returns the logits of rows, as the metrics take them."""


def _linear(classes: int, seed: int) -> Iterator[tuple[str, Fit]]:
    """Yield logistic regressions of growing freedom, or ridge regressions of numbers."""
    from sklearn.linear_model import LogisticRegression, Ridge

    for alpha in () if classes else (100.0, 10.0, 1.0, 0.1):
        yield f"alpha={alpha:g}", lambda part, alpha=alpha: _fitted(Ridge(alpha=alpha), part, classes)  # type: ignore[misc]
    if not classes:
        return
    for c in (0.01, 0.1, 1.0, 10.0):
        yield f"C={c:g}", lambda part, c=c: _fitted(LogisticRegression(C=c, max_iter=500), part, classes)  # type: ignore[misc]


def _trees(classes: int, seed: int, few: bool = False) -> Iterator[tuple[str, Fit]]:
    """Yield gradient boostings; a single one where there are few rows."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    kind = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor

    grid = [(0.1, 7)] if few else list(product((0.05, 0.1), (7, 31)))
    for rate, leaves in grid:

        def fit(part: SomeRows, rate: float = rate, leaves: int = leaves) -> Answer:
            least = min(20, max(2, len(part) // 10))
            model = kind(
                learning_rate=rate, max_leaf_nodes=leaves, min_samples_leaf=least, max_iter=100, random_state=seed
            )
            return _fitted(model, part, classes)

        yield f"learning_rate={rate:g}, max_leaf_nodes={leaves}", fit


def _fitted(model: Any, part: SomeRows, classes: int) -> Answer:
    """Return the answers of a model that learned from these rows; of one class, which is always answered then."""
    there = np.unique(part.y)
    if len(there) > 1:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it has not converged: so do users leave it
            model.fit(part.x, part.y)

    def answer(x: Floats) -> Tensor:
        if not classes:
            numbers = model.predict(x) if len(there) > 1 else np.full(len(x), there[0])
            return torch.from_numpy(numbers)[:, None]
        shares = np.full((len(x), classes), _SMALLEST)
        shares[:, there] = model.predict_proba(x) if len(there) > 1 else 1.0
        return torch.from_numpy(np.log(np.maximum(shares, _SMALLEST)))

    return answer


# ------------------------------------------------------------ tuning and scores


def value_of(metric: Metric, logits: Tensor, y: Tensor) -> float | None:
    """Return a metric of logits and labels; None where it is not defined or there are no rows."""
    if not len(y):
        return None
    if isinstance(metric, SampleMetric):
        return float(metric.right(logits, y).double().mean())
    assert isinstance(metric, SetMetric)
    return metric.value(logits, y)


@dataclass(frozen=True)
class _Tuned:
    setting: str
    score: float
    loss: float
    fit: Fit


def _best(candidates: Iterator[tuple[str, Fit]], train: SomeRows, val: SomeRows, metric: Metric) -> _Tuned:
    """Return the candidate with the best figure on validation rows; of equal ones that of the lowest loss."""
    found = []
    for setting, fit in candidates:
        logits, y = fit(train)(val.x) if len(val) else torch.zeros(0, 1), torch.from_numpy(val.y)
        score, loss = value_of(metric, logits, y), value_of(RMSE if y.is_floating_point() else LOSS, logits, y)
        found.append(
            _Tuned(
                setting, -np.inf if score is None else metric.direction * score, np.inf if loss is None else loss, fit
            )
        )
    return max(found, key=lambda each: (each.score, -each.loss))


def _on_split(rows: Rows, metric: Metric, seed: int) -> dict[str, tuple[Column, str]]:
    """Return every yardstick's values by client on one split, and the settings that were chosen."""
    train, val = rows.together()
    found: dict[str, tuple[Column, str]] = {}
    kinds = {POOLED_LINEAR: _linear(rows.classes, seed)}
    if train.x.shape[1] <= MOST_COLUMNS_OF_TREES:
        kinds[POOLED_TREES] = _trees(rows.classes, seed)
    for name, candidates in kinds.items():
        best = _best(candidates, train, val, metric)
        answer = best.fit(train + val)
        found[name] = _scored(rows, {client.id: answer for client in rows.clients}, metric), best.setting
    linear, either = {}, {}
    for client in rows.clients:
        best = _best(_linear(rows.classes, seed), client.train, client.val, metric)
        linear[client.id] = best.fit(client.train + client.val)
        either[client.id] = linear[client.id]
        if len(client.train) >= FEWEST_ROWS_OF_TREES and client.train.x.shape[1] <= MOST_COLUMNS_OF_TREES:
            trees = _best(_trees(rows.classes, seed, few=True), client.train, client.val, metric)
            if (trees.score, -trees.loss) > (best.score, -best.loss):
                either[client.id] = trees.fit(client.train + client.val)
    found[ALONE] = _scored(rows, either, metric), "each client's own"
    found[ALONE_LINEAR] = _scored(rows, linear, metric), "each client's own"
    return found


def _scored(rows: Rows, answers: Mapping[int, Answer], metric: Metric) -> Column:
    """Return each client's figure on its own test rows; clients without one are left out."""
    values = {
        client.id: value_of(metric, answers[client.id](client.test.x), torch.from_numpy(client.test.y))
        for client in rows.clients
        if len(client.test)
    }
    return {client: value for client, value in values.items() if value is not None}
