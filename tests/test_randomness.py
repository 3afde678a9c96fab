"""Randomness comes from four words and nothing else."""

import random

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from motet.training.randomness import derive, generator, numpy_generator, seeded

words = st.tuples(
    st.integers(0, 2**40), st.sampled_from(["init", "batch", "cohort"]), st.integers(0, 999), st.integers(0, 999)
)


def test_the_same_on_every_machine() -> None:
    assert derive(1, "batches", 2, 3) == 7641104567792754627


@given(words, words)
def test_different_words_give_different_seeds(a: tuple[int, str, int, int], b: tuple[int, str, int, int]) -> None:
    assert (derive(*a) == derive(*b)) == (a == b)
    assert 0 <= derive(*a) < 2**63


def test_generators_ignore_the_global_state() -> None:
    drawn = []
    for global_seed in (0, 1):
        random.seed(global_seed)
        np.random.seed(global_seed)
        torch.manual_seed(global_seed)
        drawn.append(
            (
                torch.rand(3, generator=generator(7, "batches", 1, 2)).tolist(),
                numpy_generator(7, "batches", 1, 2).random(3).tolist(),
            )
        )
    assert drawn[0] == drawn[1]


def test_purposes_rounds_and_clients_are_independent_streams() -> None:
    streams = [(7, "init", 0, 0), (7, "batches", 0, 0), (7, "init", 1, 0), (7, "init", 0, 1), (8, "init", 0, 0)]
    for make in (
        lambda *w: torch.rand(1, generator=generator(*w)).item(),
        lambda *w: numpy_generator(*w).random(),
    ):
        assert len({make(*w) for w in streams}) == len(streams)


def test_seeded_gives_torch_this_seed_and_puts_the_old_state_back() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    with seeded(1, "init"):
        first = torch.nn.Linear(4, 4).weight.detach().clone()
    assert torch.equal(torch.rand(2), expected)
    with seeded(1, "init"):
        assert torch.equal(torch.nn.Linear(4, 4).weight, first)


def test_seeded_puts_the_old_state_back_after_an_error() -> None:
    state = torch.get_rng_state()
    try:
        with seeded(1, "init"):
            raise RuntimeError
    except RuntimeError:
        pass
    assert torch.equal(torch.get_rng_state(), state)
