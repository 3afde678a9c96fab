"""The one local loop: its steps are torch.optim.SGD's, its batches are dealt fairly, and NaN never gets out."""

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from motet.config.section import checked
from motet.config.sections import LocalSettings
from motet.data import Samples, VectorPrepare
from motet.errors import Diverged
from motet.training.flat_weights import Layout
from motet.training.local import Descent

LR = 0.1


def samples(n: int) -> Samples:
    """n points of the plane in three classes; the first number of each names it."""
    x = torch.stack([torch.arange(n, dtype=torch.float32), torch.linspace(-1, 1, n)], dim=1)
    return Samples(x, torch.arange(n) % 3, VectorPrepare((2,)))


def rule(**changes: Any) -> LocalSettings:
    plain = {"epochs": 1, "batch": 4, "momentum": 0.0, "weight_decay": 0.0}
    return checked(LocalSettings, plain | changes, "local")


def descent(settings: LocalSettings, epochs: int | None = None, seed: int = 5) -> Descent:
    return Descent(settings, LR, torch.Generator().manual_seed(seed), epochs)


def net() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, 3))


def descended(how: Descent, data: Samples) -> Tensor:
    """The flat weights after the loop's steps."""
    model = net()
    layout = Layout(model)
    w = layout.flatten(model)
    g = torch.zeros_like(w)
    layout.bind(model, w, g)

    def gradient(x: Tensor, y: Tensor) -> None:
        cross_entropy(model(x / 10), y).backward()

    how.run(data, w, g, gradient)
    return w


def by_torch(settings: LocalSettings, batches: Iterator[list[int]], data: Samples) -> Tensor:
    """The same weights from torch's own optimizer and gradient clipping."""
    model = net()
    sgd = torch.optim.SGD(model.parameters(), LR, settings.momentum, weight_decay=settings.weight_decay)
    for rows in batches:
        x, y = data.batch(torch.tensor(rows))
        sgd.zero_grad()
        cross_entropy(model(x / 10), y).backward()
        if settings.clip:
            nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
        sgd.step()
    return Layout(model).flatten(model)


def shuffles(n: int, batch: int, epochs: int, drop_last: bool = False, seed: int = 5) -> Iterator[list[int]]:
    """The batches as a reader of the settings would deal them."""
    rng = torch.Generator().manual_seed(seed)
    for _ in range(epochs):
        order = torch.randperm(n, generator=rng).tolist()
        for start in range(0, n, batch):
            if not (drop_last and start and len(order[start : start + batch]) < batch):
                yield order[start : start + batch]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"momentum": 0.9},
        {"weight_decay": 0.1},
        {"momentum": 0.9, "weight_decay": 0.1},
        {"clip": 0.05},
        {"momentum": 0.9, "weight_decay": 0.1, "clip": 0.05},
        {"clip": 1e6},
        {"momentum": 0.5, "drop_last": True},
        {"epochs": 3, "momentum": 0.9, "batch": 7},
    ],
    ids=str,
)
def test_the_steps_are_those_of_torch(changes: dict[str, Any]) -> None:
    settings, data = rule(**changes), samples(10)
    batches = list(shuffles(10, settings.batch, settings.epochs, settings.drop_last))
    loop = descent(settings)
    found = descended(loop, data)
    assert loop.steps == len(batches)
    torch.testing.assert_close(found, by_torch(settings, iter(batches), data), rtol=1e-5, atol=1e-6)
    assert (found - Layout(net()).flatten(net())).norm() > 1e-3  # it moved


@pytest.mark.parametrize("field", ["momentum", "weight_decay", "clip"])
def test_every_rule_of_the_step_matters(field: str) -> None:
    settings, data = rule(momentum=0.9, weight_decay=0.1, clip=0.05), samples(10)
    without = settings.model_copy(update={field: 0.0})
    assert (descended(descent(settings), data) - descended(descent(without), data)).norm() > 1e-4


def test_steps_count_instead_of_epochs() -> None:
    settings, data = rule(epochs=1, steps=7, momentum=0.9), samples(10)  # three batches an epoch
    loop = descent(settings)
    found = descended(loop, data)
    assert loop.steps == 7
    batches = list(shuffles(10, 4, 3))[:7]
    torch.testing.assert_close(found, by_torch(settings, iter(batches), data), rtol=1e-5, atol=1e-6)


def test_epochs_of_the_caller_come_before_the_settings_steps() -> None:
    loop = descent(rule(steps=7), epochs=2)
    assert len(list(loop.batches(samples(10)))) == loop.steps == 6


@given(st.integers(1, 60), st.integers(1, 20), st.integers(1, 3))
def test_each_epoch_shows_every_sample_once(n: int, batch: int, epochs: int) -> None:
    seen = [x[:, 0].int().tolist() for x, _ in descent(rule(batch=batch, epochs=epochs)).batches(samples(n))]
    assert Counter(i for rows in seen for i in rows) == dict.fromkeys(range(n), epochs)
    assert all(len(rows) <= batch for rows in seen)
    assert len(seen) == epochs * math.ceil(n / batch)


@given(st.integers(1, 60), st.integers(1, 20))
def test_drop_last_leaves_out_less_than_a_batch_and_never_all(n: int, batch: int) -> None:
    seen = [rows.tolist() for _, rows in descent(rule(batch=batch, drop_last=True)).batches(samples(n))]
    assert [len(rows) for rows in seen] == ([batch] * (n // batch) if n >= batch else [n])


def test_epochs_are_shuffled_by_the_given_randomness() -> None:
    first, second = (
        [x[:, 0].int().tolist() for x, _ in descent(rule(epochs=2), seed=seed).batches(samples(8))] for seed in (5, 6)
    )
    assert first == list(shuffles(8, 4, 2)) != second
    assert first[:2] != first[2:]


def test_momentum_kept_or_reset() -> None:
    """Two rounds of three steps are six steps of one optimizer only when the velocity is kept."""
    settings, data = rule(momentum=0.9), samples(10)
    batches = list(shuffles(10, 4, 1)) + list(shuffles(10, 4, 1, seed=6))
    kept = by_torch(settings, iter(batches), data)

    model = net()
    layout = Layout(model)

    def two_rounds(keep: bool) -> Tensor:
        w = layout.flatten(net())
        g = torch.zeros_like(w)
        layout.bind(model, w, g)

        def gradient(x: Tensor, y: Tensor) -> None:
            cross_entropy(model(x / 10), y).backward()

        first, second = descent(settings, seed=5), descent(settings, seed=6)
        first.run(data, w, g, gradient)
        second.velocity = first.velocity if keep else None
        second.run(data, w, g, gradient)
        return w

    torch.testing.assert_close(two_rounds(keep=True), kept, rtol=1e-5, atol=1e-6)
    assert (two_rounds(keep=False) - kept).norm() > 1e-2


def test_without_momentum_there_is_no_velocity() -> None:
    loop = descent(rule())
    descended(loop, samples(4))
    assert loop.velocity is None


def test_the_learning_rate_decays_per_round_and_the_first_is_whole() -> None:
    settings = rule(lr=0.5, lr_decay=0.9)
    assert [settings.at_round(r) for r in (1, 2, 3)] == pytest.approx([0.5, 0.45, 0.405])


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_training_that_leaves_the_finite_numbers_says_so(bad: float) -> None:
    w, g = torch.zeros(3), torch.zeros(3)

    def gradient(x: Tensor, y: Tensor) -> None:
        g.fill_(0.0)
        g[1] = bad

    with pytest.raises(Diverged, match=r"^training left the finite numbers \(NaN or infinity in the weights\)$"):
        descent(rule()).run(samples(4), w, g, gradient)
