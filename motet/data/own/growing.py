"""Rows of which nobody knows how many will come."""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
_BLOCK = 2**26  # bytes; a C library gives blocks above 32 MB back when they are freed


class Growing:
    """In blocks so large that the system takes each back at once."""

    def __init__(self, width: int):
        self.width, self.count = width, 0
        self._size = max(1, _BLOCK // (4 * max(1, width)))
        self._blocks: list[Floats] = []
        self._left = 0  # of the last block

    @property
    def bytes(self) -> int:
        """So far."""
        return 4 * self.width * self.count

    def next(self, rows: int) -> Floats:
        """The place of the next rows, to be written to."""
        if rows > self._left:
            self._shorten_last()
            self._left = max(rows, self._size)
            self._blocks.append(np.empty((self._left, self.width), np.float32))
        start = len(self._blocks[-1]) - self._left
        self._left -= rows
        self.count += rows
        return self._blocks[-1][start : start + rows]

    def joined(self) -> Floats:
        """All rows; each block goes as it is copied, so that memory holds the table little more than once."""
        self._shorten_last()
        joined = np.empty((self.count, self.width), np.float32)
        at, blocks = 0, self._blocks[::-1]
        self._blocks = []
        while blocks:
            block = blocks.pop()
            joined[at : at + len(block)] = block
            at += len(block)
        return joined

    def _shorten_last(self) -> None:
        if self._blocks and self._left:
            self._blocks[-1] = self._blocks[-1][: -self._left]
        self._left = 0
