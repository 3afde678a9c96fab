"""What nets are given in tests."""

from motet.config.data_section import SampleKind
from motet.data import Input

_KINDS: dict[int, SampleKind] = {1: "vector", 2: "signal", 3: "image"}


def input_of(*shape: int) -> Input:
    """Images, signals or vectors of numbers: as many sides, so the kind."""
    return Input(_KINDS[len(shape)], shape)
