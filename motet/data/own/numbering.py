"""Columns that number the rows, from which nothing can be learned."""

import re

import numpy as np
import numpy.typing as npt

from motet.data.own.measured import FEW


class Numbering:
    """Whether a column of numbers seems to number the rows: whole, all different, and a count or called an id."""

    def __init__(self, name: str):
        self.called = re.search(r"(^|[\W_])id$|[a-z]I[dD]$", name, re.ASCII) is not None or name.lower() == "id"
        self.possible, self.rows = True, 0
        self.low, self.high = np.inf, -np.inf

    def see(self, values: npt.NDArray[np.float64]) -> None:
        """The next rows."""
        if not self.possible or not len(values):
            return
        self.possible = bool((values % 1 == 0).all()) and len(np.unique(values)) == len(values)
        self.rows += len(values)
        self.low, self.high = min(self.low, values.min()), max(self.high, values.max())

    @property
    def is_one(self) -> bool:
        """After the last row."""
        counts = self.high - self.low + 1 == self.rows
        return self.possible and self.rows >= FEW and (counts or self.called)
