"""Classes shared out by a Dirichlet distribution, plain or with clients of like size."""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from motet.data.partitions.request import PartitionRequest, RowsPerClient
from motet.data.readers.raw import Integers
from motet.errors import MotetError
from motet.io.memory_limits import refuse_if_too_large

MOST_DRAWS = 1000
MOST_CUTS = 2_000_000  # of classes, in all draws: minutes

_BYTES_OF_A_PIECE = 150

Shares = npt.NDArray[np.float64]


def deal_dirichlet(request: PartitionRequest) -> RowsPerClient:
    """Client m gets a share q_c[m] of class c, q_c ~ Dir(alpha); drawn again while a client is too small."""
    rng = request.generator()

    def draw() -> Stacks | None:
        stacks = Stacks(request.clients)
        for rows in request.rows_by_class():
            rng.shuffle(rows)
            if not stacks.add(rows, rng.dirichlet(np.full(request.clients, request.argument))):
                return None
        return stacks

    return _redraw(request, draw)


def deal_dirichlet_balanced(request: PartitionRequest) -> RowsPerClient:
    """Deal as dirichlet does, but give no more classes to a client that holds its equal share of all samples.

    The order of the legacy generator's calls (per class: shuffle, then draw) is part of the published partitions.
    """
    rng = request.legacy_generator()
    fair_size = len(request.y) / request.clients

    def draw() -> Stacks | None:
        stacks = Stacks(request.clients)
        for rows in request.rows_by_class():
            rng.shuffle(rows)
            shares = rng.dirichlet(np.full(request.clients, request.argument)) * (stacks.sizes < fair_size)
            if not stacks.add(rows, shares / max(shares.sum(), np.finfo(float).tiny)):
                return None
        return stacks

    return _redraw(request, draw)


class Stacks:
    """A draw: each class cut by shares, a piece per client. Most draws are thrown away for the sizes they give."""

    def __init__(self, clients: int):
        self.sizes: Integers = np.zeros(clients, np.int64)
        self._cut: list[tuple[Integers, Integers]] = []

    def add(self, rows: Integers, shares: Shares) -> bool:
        """Cut one class; False when the shares underflowed to nothing."""
        if not math.isclose(shares.sum(), 1, abs_tol=1e-6):
            return False
        cuts = np.minimum((np.cumsum(shares) * len(rows)).astype(np.int64)[:-1], len(rows))
        self.sizes += np.diff(cuts, prepend=0, append=len(rows))
        self._cut.append((rows, cuts))
        return True

    def rows_per_client(self) -> RowsPerClient:
        """Return the rows of each client, class after class."""
        cut = [(rows, [0, *cuts.tolist(), len(rows)]) for rows, cuts in self._cut]
        return [np.concatenate([rows[at[i] : at[i + 1]] for rows, at in cut]) for i in range(len(self.sizes))]


def _redraw(request: PartitionRequest, draw: Callable[[], Stacks | None]) -> RowsPerClient:
    classes = len(np.unique(request.y))
    refuse_if_too_large(
        classes * request.clients * _BYTES_OF_A_PIECE,
        f"partition {request.spec!r} of {classes} classes to {request.clients} clients",
        "fewer clients",
    )
    draws = min(MOST_DRAWS, max(20, MOST_CUTS // classes))
    for _ in range(draws):
        stacks = draw()
        if stacks is not None and stacks.sizes.min() >= request.least:
            return stacks.rows_per_client()
    raise MotetError(
        f"partition {request.spec!r}: none of {draws} draws gave each of {request.clients} clients at least "
        f"{request.least} samples; accepted: a larger argument, fewer clients or a smaller min_size"
    )
