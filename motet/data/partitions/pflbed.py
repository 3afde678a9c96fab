"""PFLBED: clients of one domain each, who train or are new; tests and validation are their domain's (FedBasis, §5)."""

from dataclasses import dataclass

import numpy as np

from motet.data.partitions.dirichlet import deal_dirichlet
from motet.data.partitions.request import PartitionRequest, RowsPerClient, rows_by_value
from motet.data.readers.raw import Integers
from motet.errors import MotetError
from motet.training.randomness import numpy_generator

TEST, VALIDATION = 0.15, 0.05
"""Of a domain's samples, class-balanced and shared by its clients."""
TRAINING, NEW = 0.6, 0.2
"""Of a domain's samples, for the clients that train and for the new ones."""


@dataclass(frozen=True)
class Pflbed:
    """The rows of each client, who of them is new, and the rows that a domain's clients share."""

    rows_per_client: RowsPerClient
    new: set[int]
    test: Integers
    validation: Integers


def deal_pflbed(request: PartitionRequest) -> Pflbed:
    """Domain by domain, each to `table.clients` clients, new ones last; data without domains are one domain.

    What the test and validation sets leave is cut at random as TRAINING to NEW; every pool has a draw of its own.
    """
    domains = [np.arange(len(request.y))] if request.domain is None else rows_by_value(request.domain)
    fresh = new_of(request.clients, request.new)
    rows_per_client, new, test, validation = RowsPerClient(), set[int](), RowsPerClient(), RowsPerClient()
    for number, rows in enumerate(domains):
        rest = numpy_generator(request.seed, "pflbed", number).permutation(rows)
        classes = len(np.unique(request.y[rows]))
        for share, aside in ((TEST, test), (VALIDATION, validation)):
            chosen = _first_of_each_class(request.y[rest], int(share * len(rows) / classes + 1e-9))
            aside.append(np.sort(rest[chosen]))
            rest = rest[~chosen]
        end = round(len(rest) * TRAINING / (TRAINING + NEW)) if fresh else len(rest)
        rows_per_client += _deal(request, rest[:end], request.clients - fresh, 2 * number + 1)
        new |= set(range(len(rows_per_client), len(rows_per_client) + fresh))
        if fresh:
            rows_per_client += _deal(request, rest[end:], fresh, 2 * number + 2)
    return Pflbed(rows_per_client, new, np.concatenate(test), np.concatenate(validation))


def new_of(clients: int, share: float) -> int:
    """Return how many of these clients are new; raise a `MotetError` if none is left to train."""
    count = max(1, round(share * clients)) if share else 0
    if count >= clients:
        raise MotetError(f"new_clients {share} leaves no training client of {clients}; accepted: a smaller share")
    return count


def _deal(request: PartitionRequest, pool: Integers, clients: int, stream: int) -> RowsPerClient:
    return [pool[rows] for rows in deal_dirichlet(request.part(pool, clients, stream))]


def _first_of_each_class(y: Integers, most: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Marks the first so many rows of each class, or all where a class has fewer."""
    chosen = np.zeros(len(y), bool)
    for rows in rows_by_value(y):
        chosen[rows[:most]] = True
    return chosen
