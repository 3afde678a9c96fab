"""How the rows of one client become training, validation and test rows: at random, by time, in whole groups."""

import math
from collections.abc import Sequence

import numpy as np

from motet.config.data_section import DataSettings
from motet.data.partitions.registry import deal, inside, parse
from motet.data.partitions.request import RowsPerClient, rows_by_value
from motet.data.readers.raw import Integers, RawData
from motet.errors import MotetError, shown
from motet.training.randomness import numpy_generator

Split = tuple[Integers, Integers, Integers]
"""The rows of one client's train, val and test splits."""


def split_rows(raw: RawData, rows: Integers, settings: DataSettings, seed: int, client: int) -> Split:
    """Return a client's rows in train, val and test: at random, not stratified, as in the papers.

    With times, test rows are the latest, and validation rows the latest of the rest. With groups, each group is on one
    side as a whole, and the shares are as near to what is asked as that allows.
    """
    test = 0 if settings.pool == "no_test" else int(settings.test_share * len(rows))
    val = int(settings.val_share * (len(rows) - test))
    rng = numpy_generator(seed, "split", settings.resplit, client)
    if raw.group is not None:
        pieces = in_order(raw, rows, rng)
        kept, tested = cut_from_end(pieces, test)
        trained, validated = cut_from_end(kept, val)
        return joined(trained), joined(validated), joined(tested)
    mixed = rng.permutation(rows) if raw.time is None else by_time(raw.time, rows)
    train = len(rows) - test - val
    return mixed[:train], mixed[train : train + val], mixed[train + val :]


def by_time(time: np.ndarray, rows: Integers) -> Integers:
    """Return rows from the earliest to the latest; those of one time in the order of the table."""
    ordered: Integers = rows[np.lexsort((rows, time[rows]))]
    return ordered


def in_order(raw: RawData, rows: Integers, rng: np.random.Generator) -> list[Integers]:
    """Return the rows of each group, groups at random or, with times, by the latest time of each."""
    assert raw.group is not None
    groups = [rows[of] for of in rows_by_value(raw.group[rows])]
    if raw.time is None:
        return [groups[i] for i in rng.permutation(len(groups))]
    latest = [raw.time[of].max() for of in groups]
    return [groups[i] for i in np.argsort(latest, kind="stable")]


def cut_from_end(pieces: list[Integers], wanted: int) -> tuple[list[Integers], list[Integers]]:
    """Return the pieces in two parts, of which the second has about so many rows; the first keeps at least one.

    The second has at least one piece if any row is wanted and there are two pieces.
    """
    if not wanted or len(pieces) < 2:
        return pieces, []
    sizes = np.cumsum([len(piece) for piece in pieces[:0:-1]])  # all but the first may go
    count = int(np.argmin(np.abs(sizes - wanted))) + 1
    return pieces[:-count], pieces[-count:]


def joined(pieces: Sequence[Integers]) -> Integers:
    """Return the rows of all pieces as one array."""
    return np.concatenate([np.empty(0, np.int64), *pieces])


# -------- Groups that are dealt as a whole


def deal_groups(raw: RawData, pool: Integers, settings: DataSettings, seed: int) -> RowsPerClient:
    """Deal whole groups to simulated clients: each group counts as one sample of its most frequent class.

    The rows that are returned are places in `pool`.
    """
    assert raw.group is not None
    spec, groups = settings.partition, rows_by_value(raw.group[pool])
    if len(groups) < settings.clients:
        raise MotetError(
            f"data.group {shown(settings.group)} has {len(groups)} groups, which are dealt whole to {settings.clients} "
            f"clients; accepted: fewer clients"
        )
    partition = parse(spec)[0]
    least = partition.least if settings.min_size is None else settings.min_size
    each = math.ceil(least * len(groups) / len(pool))
    column = {"client": raw.client, "domain": raw.domain}
    for role in filter(None, [inside(spec)]):
        _refuse_several(raw, pool, groups, column[role], role, settings)
    firsts = np.array([pool[rows[0]] for rows in groups])
    client, domain = (None if values is None else values[firsts] for values in (raw.client, raw.domain))
    try:
        dealt = deal(spec, majority(raw, pool, groups), settings.clients, seed, client, each, domain)
    except MotetError as error:
        raise MotetError(f"dealing whole groups of {shown(settings.group)} as samples: {error}") from None
    found = [joined([groups[i] for i in part]) for part in dealt]
    for number, rows in enumerate(found):
        if len(rows) < least:
            raise MotetError(
                f"partition {spec!r} of whole groups gives client {number} only {len(rows)} samples; accepted: at "
                f"least {least} (use fewer clients or a smaller min_size)"
            )
    return found


def majority(raw: RawData, pool: Integers, groups: RowsPerClient) -> Integers:
    """Return the most frequent class of each group, of several the first."""
    return np.array([np.bincount(raw.y[pool[rows]]).argmax() for rows in groups], np.int64)


def _refuse_several(
    raw: RawData, pool: Integers, groups: RowsPerClient, column: Integers | None, role: str, settings: DataSettings
) -> None:
    if column is not None and any(len(np.unique(column[pool[rows]])) > 1 for rows in groups):
        raise MotetError(
            f"partition {settings.partition!r} deals each {role} by itself, but a group of {shown(settings.group)} has "
            f"rows of several; accepted: {settings.partition.partition('@')[0]}"
        )
