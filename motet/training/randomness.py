"""Randomness from (seed, purpose, round, client), never from a global generator or the order of work."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def derive(seed: int, purpose: str, round: int = 0, client: int = 0) -> int:
    """A 63-bit seed that is the same on every machine for the same four words."""
    words = f"{seed}/{purpose}/{round}/{client}".encode()
    return int.from_bytes(hashlib.blake2b(words, digest_size=8).digest(), "little") >> 1


def generator(seed: int, purpose: str, round: int = 0, client: int = 0) -> torch.Generator:
    """A torch generator of its own for one purpose of one client in one round."""
    return torch.Generator().manual_seed(derive(seed, purpose, round, client))


def numpy_generator(seed: int, purpose: str, round: int = 0, client: int = 0) -> np.random.Generator:
    """The same for NumPy."""
    return np.random.default_rng(derive(seed, purpose, round, client))


@contextmanager
def seeded(seed: int, purpose: str, round: int = 0, client: int = 0) -> Iterator[None]:
    """Torch's own initializers draw from the global generator: give it this seed, then put it back."""
    with _global_generator_at(derive(seed, purpose, round, client)):
        yield


@contextmanager
def layers_draw_by(rng: torch.Generator) -> Iterator[None]:
    """Dropout draws from the global generator too: give it a seed that this one's state tells, then put it back.

    The generator itself does not move: what else it is for stays as it is without such layers.
    """
    state = hashlib.blake2b(rng.get_state().numpy().tobytes(), digest_size=8).digest()
    with _global_generator_at(int.from_bytes(state, "little") >> 1):
        yield


@contextmanager
def _global_generator_at(seed: int) -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # the CPU's alone
        yield
