"""Samples of the workloads that no package installs: made up, always the same, of the real ones' shapes.

What is learned from them says nothing; how long it takes is what it takes with real ones.
"""

import os
import tempfile
from pathlib import Path

import numpy as np

from throughput_parts.plain_nets import VOCABULARY

LENGTH = 80  # characters before the one that is told, as in LEAF


def colour_images() -> str:
    """10,000 images of 32 x 32 in ten classes, as many as CIFAR-10 has to test with."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (10_000, 32, 32, 3), dtype=np.uint8)
    return _kept("cifar-like", x=x, y=np.arange(len(x)) % 10)


def characters() -> str:
    """4,000 windows of text of 20 speakers, each with the character that follows."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, VOCABULARY, (4_000, LENGTH), dtype=np.uint8)
    y = np.arange(len(x)) % VOCABULARY
    return _kept("shakespeare-like", x=x, y=y, kind=np.array("tokens"), vocabulary=np.array(VOCABULARY))


def _kept(name: str, **fields: np.ndarray) -> str:
    """A file of this machine's temporary folder that every contestant reads; the same bytes whoever writes it."""
    path = Path(tempfile.gettempdir()) / f"motet-throughput-{os.getuid()}-{name}.npz"
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".npz", delete=False) as file:
        np.savez(file, **fields)
    Path(file.name).replace(path)
    return str(path)
