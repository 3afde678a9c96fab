"""What every way of dealing works with: the rows on the table, and hands of them."""

from dataclasses import dataclass, replace

import numpy as np

from motet.data.readers.raw import Integers
from motet.training.randomness import numpy_generator

RowsPerClient = list[Integers]
"""One array of row numbers per client."""


@dataclass(frozen=True)
class PartitionRequest:
    """What a partition is given: the labels of all rows, the number of clients, the seed and its own argument."""

    spec: str
    argument: float
    y: Integers
    clients: int
    seed: int
    least: int
    client_column: Integers | None
    domain: Integers | None = None
    """The domain of each row, for ways of dealing within domains."""
    new: float = 0.0
    """The share of clients that are new, for ways of dealing that give them data of their own."""
    stream: int = 0
    """Tells dealings of one seed apart: each domain has its own."""

    def rows_by_class(self) -> list[Integers]:
        """Return the rows of each class that occurs, in class order."""
        return rows_by_value(self.y)

    def generator(self) -> np.random.Generator:
        """Return Motet's own random generator for this partition."""
        return numpy_generator(self.seed, "partition", self.stream)

    def legacy_generator(self) -> np.random.RandomState:
        """Return the old NumPy generator behind partitions that other code published."""
        return np.random.RandomState((self.seed + self.stream) % 2**32)

    def part(self, rows: Integers, clients: int, stream: int) -> "PartitionRequest":
        """Return the request for some of the rows alone, with randomness of its own."""
        return replace(self, y=self.y[rows], clients=clients, client_column=None, domain=None, stream=stream)


def rows_by_value(column: Integers) -> list[Integers]:
    """The rows of each value that occurs, by rising value; the rows of one rise too."""
    order = np.argsort(column, kind="stable")
    if not len(order):
        return []
    return np.split(order, np.flatnonzero(np.diff(column[order])) + 1)
