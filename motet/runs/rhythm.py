"""When a run is saved: often enough that a kill costs little, seldom enough that saving costs little."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

SHARE = 0.05  # of a run's time that saving may take


class Rhythm:
    """Tells after which rounds to save: every so many, or by what the last save took."""

    def __init__(self, every: int | Literal["auto"], last: int, clock: Callable[[], float] = time.perf_counter):
        """`last` is the number of the last round."""
        self.every, self.last, self.clock = every, last, clock
        self._took: float | None = None  # seconds of the last save of this process
        self._ended = 0.0
        self._untold = 0.0

    def is_due(self, round: int) -> bool:
        """Whether to save now; what is before the first round and what is after the last are always saved."""
        if round in (0, self.last):
            return True
        if self.every != "auto":
            return round % self.every == 0
        return self._took is None or self._took <= SHARE * (self.clock() - self._ended)

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Around a save."""
        began = self.clock()
        yield
        self._ended = self.clock()
        self._took = self._ended - began
        self._untold += self._took

    def seconds(self) -> float:
        """What saving took since this was asked the last time."""
        told, self._untold = self._untold, 0.0
        return told
