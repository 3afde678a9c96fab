"""A long tail over all clients: classes that are rarer and rarer (FED-ROD, Tables 10 and 11)."""

import numpy as np

from motet.data.raw import Integers, RawData
from motet.data.table import rows_by_value


def tail_sizes(largest: int, classes: int, imbalance: float) -> list[int]:
    """How many samples each class keeps: the first all, the last one of `imbalance`, geometric between them."""
    steps = max(1, classes - 1)
    return [int(largest * imbalance ** (-c / steps) + 1e-9) for c in range(classes)]


def tail(raw: RawData, rows: Integers, imbalance: float, rng: np.random.Generator) -> Integers:
    """At most so many rows of each class, at random, in rising order; a class keeps one where it has any."""
    by_class = rows_by_value(raw.y[rows])
    sizes = tail_sizes(max(map(len, by_class)), raw.classes, imbalance)
    kept = [rng.permutation(rows[of])[: max(1, sizes[raw.y[rows[of[0]]]])] for of in by_class]
    return np.sort(np.concatenate(kept))
