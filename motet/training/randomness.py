"""Randomness from (seed, purpose, round, client), never from a global generator or the order of work."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


def derive(seed: int, purpose: str, round: int = 0, client: int = 0) -> int:
    """Return a 63-bit seed that is the same on every machine for the same four arguments."""
    words = f"{seed}/{purpose}/{round}/{client}".encode()
    return int.from_bytes(hashlib.blake2b(words, digest_size=8).digest(), "little") >> 1


def secret_bytes(secret: bytes, seed: int, purpose: str, round: int = 0, client: int = 0) -> bytes:
    """Return 32 bytes for one purpose that only who has `secret` can know; of an empty one, who knows the seed."""
    words = f"{seed}/{purpose}/{round}/{client}".encode()
    return hashlib.blake2b(words, key=secret, digest_size=32).digest()


def secret_generator(secret: bytes, seed: int, purpose: str, round: int = 0, client: int = 0) -> torch.Generator:
    """Return a torch generator for one purpose whose draws only who has `secret` can know."""
    drawn = secret_bytes(secret, seed, purpose, round, client)
    return torch.Generator().manual_seed(int.from_bytes(drawn[:8], "little") >> 1)


def generator(seed: int, purpose: str, round: int = 0, client: int = 0) -> torch.Generator:
    """Return a torch generator for one purpose of one client in one round."""
    return torch.Generator().manual_seed(derive(seed, purpose, round, client))


def numpy_generator(seed: int, purpose: str, round: int = 0, client: int = 0) -> np.random.Generator:
    """Return a NumPy generator for one purpose of one client in one round."""
    return np.random.default_rng(derive(seed, purpose, round, client))


@contextmanager
def seeded(seed: int, purpose: str, round: int = 0, client: int = 0) -> Iterator[None]:
    """Seed the global generator, from which torch's initializers draw, inside the block; restore it after."""
    with _global_generator_at(derive(seed, purpose, round, client)):
        yield


@contextmanager
def layers_draw_by(rng: torch.Generator) -> Iterator[None]:
    """Seed the global generator, from which dropout draws, by the state of `rng` inside the block; restore it after.

    `rng` itself does not advance, so its other draws are the same as without such layers.
    """
    state = hashlib.blake2b(rng.get_state().numpy().tobytes(), digest_size=8).digest()
    with _global_generator_at(int.from_bytes(state, "little") >> 1):
        yield


@contextmanager
def _global_generator_at(seed: int) -> Iterator[None]:
    before = torch.get_rng_state()  # the CPU's alone; torch.random.fork_rng takes as long as a step of a small net
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        torch.set_rng_state(before)
