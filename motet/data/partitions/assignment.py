"""Which rows of the data go where: to clients, to the sets that clients share, or nowhere (a long tail)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from motet.config.data_section import AUTO, DataSettings
from motet.data.partitions.pflbed import deal_pflbed, new_of
from motet.data.partitions.registry import deal, make_request, parse
from motet.data.partitions.request import RowsPerClient, rows_by_value
from motet.data.partitions.splits import (
    Split,
    by_time,
    cut_from_end,
    deal_groups,
    in_order,
    joined,
    majority,
    split_rows,
)
from motet.data.readers.raw import Integers, RawData
from motet.errors import MotetError, shown
from motet.io.memory_limits import refuse_if_too_large
from motet.io.text import listed, some
from motet.training.randomness import numpy_generator


def tail_sizes(largest: int, classes: int, imbalance: float) -> list[int]:
    """Return how many samples each class keeps: the first all, the last one of `imbalance`, geometric in between."""
    steps = max(1, classes - 1)
    return [int(largest * imbalance ** (-c / steps) + 1e-9) for c in range(classes)]


def tail(raw: RawData, rows: Integers, imbalance: float, rng: np.random.Generator) -> Integers:
    """At most so many rows of each class, at random, in rising order; a class keeps one where it has any."""
    by_class = rows_by_value(raw.y[rows])
    sizes = tail_sizes(max(map(len, by_class)), raw.classes, imbalance)
    kept = [rng.permutation(rows[of])[: max(1, sizes[raw.y[rows[of[0]]]])] for of in by_class]
    return np.sort(np.concatenate(kept))


# -------- Which rows of the data go where


COMMON_TEST_SHARE = 0.2
"""Of data without an official test set."""


@dataclass(frozen=True)
class Dealt:
    """Row numbers, and nothing of the samples themselves."""

    pool: Integers
    """What was there to deal."""
    splits: list[Split]
    new: set[int]
    """Which clients are held out as new."""
    names: list[str]
    common: Integers | None
    """The common test set; None: the clients' test splits make it."""
    validation: Integers | None = None
    """What clients of a domain share for validation."""
    notes: tuple[str, ...] = ()
    """Who got nothing, or too little, in sentences."""


def deal_rows(raw: RawData, settings: DataSettings, seed: int) -> Dealt:
    """Return which rows each client trains, validates and tests on, and the common test set, as the settings say."""
    spec = settings.partition
    _refuse_what_cannot_be(raw, settings)
    pool, common = _pool_and_common(raw, settings, seed)
    client, domain = (None if column is None else column[pool] for column in (raw.client, raw.domain))
    validation = None
    if parse(spec)[0].name == "pflbed":
        found = deal_pflbed(
            make_request(
                spec, raw.y[pool], settings.clients, seed, client, settings.min_size, domain, settings.new_clients
            )
        )
        rows_per_client, new = found.rows_per_client, found.new
        common, validation = pool[found.test], pool[found.validation]
    elif raw.group is not None and parse(spec)[0].name != "natural":
        rows_per_client = deal_groups(raw, pool, settings, seed)
        new = _draw_new(len(rows_per_client), settings, seed)
    else:
        rows_per_client = deal(spec, raw.y[pool], settings.clients, seed, client, settings.min_size, domain)
        new = _draw_new(len(rows_per_client), settings, seed)
    refuse_if_too_large(
        8 * len(rows_per_client) * raw.classes,
        f"data {settings.name!r} with {len(rows_per_client)} clients and {raw.classes} classes",
        "fewer",
    )
    of_new = settings
    if settings.new_test_share is not None:
        of_new = settings.model_copy(update={"test_share": settings.new_test_share})
    splits = [
        split_rows(raw, pool[rows], of_new if client in new else settings, seed, client)
        for client, rows in enumerate(rows_per_client)
    ]
    if settings.new_share < 1:
        splits = [_fewer(split, settings.new_share) if i in new else split for i, split in enumerate(splits)]
    names = _names(raw, pool, rows_per_client, spec)
    notes: tuple[str, ...] = ()
    if parse(spec)[0].name == "natural":
        if settings.test_share and common is None and settings.pool != "no_test":
            _refuse_clients_of_one_row(raw, settings, splits)
        notes = _left_behind(raw, pool, settings, names, splits)
    return Dealt(pool, splits, new, names, common, validation, (*notes, *_how_split(raw, settings)))


def _refuse_what_cannot_be(raw: RawData, settings: DataSettings) -> None:
    """Refuse splits by group or time, and other random splits, where the partition or the shares leave no room."""
    if parse(settings.partition)[0].name == "pflbed" and (raw.group is not None or raw.time is not None):
        field = "group" if raw.group is not None else "time_column"
        raise MotetError(
            f"partition {settings.partition!r} sets test rows aside at random, whatever data.{field} says; accepted: "
            f"another partition, or no data.{field}"
        )
    if settings.resplit and raw.time is not None:
        raise MotetError(
            f"data.resplit is {settings.resplit}, but data.time_column says which rows are tested; accepted: 0"
        )
    if settings.resplit and not settings.test_share and not settings.val_share:
        raise MotetError(
            f"data.resplit is {settings.resplit}, but clients set no rows of their own aside (data.test_share and "
            f"data.val_share are 0); accepted: 0, or a share above 0"
        )


def _refuse_clients_of_one_row(raw: RawData, settings: DataSettings, splits: Sequence[Split]) -> None:
    """Refuse a column of clients that has about as many values as rows, and so says of no row whose it is."""
    if settings.client is not None and 2 * len(splits) > len(raw.y) and not any(len(test) for _, _, test in splits):
        raise MotetError(
            f"column {shown(settings.client)} (data.client) has {len(splits):,} different values in {len(raw.y):,} "
            f"rows, so that no client has rows to learn from and to be tested on; accepted: a column that says whose "
            f"row it is, such as the hospital's"
        )


def _how_split(raw: RawData, settings: DataSettings) -> list[str]:
    """Sentences about rows that are not split at random."""
    said = []
    if raw.group is not None:
        said.append(f"{len(np.unique(raw.group)):,} groups of {shown(settings.group)} are split as wholes")
        if raw.client is not None and parse(settings.partition)[0].name == "natural":
            pairs = np.unique(np.stack([raw.group, raw.client]), axis=1)
            several = int(np.count_nonzero(np.bincount(pairs[0]) > 1))
            if several:
                said.append(
                    f"{several:,} of these groups have rows at several clients, each of which splits its own: one may "
                    f"be trained on at one client and tested at another"
                )
    if raw.time is not None:
        said.append(f"test rows are the latest of each client, by {shown(settings.time_column)}")
    return said


def _usual_clients() -> int:
    """Return the default number of clients."""
    return int(DataSettings.model_fields["clients"].default)


def _left_behind(
    raw: RawData, pool: Integers, settings: DataSettings, names: list[str], splits: list[Split]
) -> tuple[str, ...]:
    """The natural clients that take no part because all their rows went elsewhere, and those without test rows."""
    assert raw.client is not None
    notes = []
    if settings.clients not in (_usual_clients(), len(splits)):
        notes.append(
            f"data.clients is {settings.clients}, but the data say whose each sample is, so there are {len(splits)} "
            f"clients; data.partition deals otherwise"
        )
    values, sizes = np.unique(raw.client, return_counts=True)
    taking_part = set(raw.client[pool].tolist())
    gone = {int(v): int(size) for v, size in zip(values, sizes, strict=True) if int(v) not in taking_part}
    if gone:
        said = [f"{shown(_name(raw, v))} ({size} rows)" for v, size in gone.items()]
        notes.append(
            f"{len(gone):,} of {len(values):,} clients take no part, because all their rows are in the common test set"
            f"{' or outside the subset' if settings.subset < 1 else ''}: {some(said)}"
        )
    untested = [name for name, (_, _, test) in zip(names, splits, strict=True) if not len(test)]
    if untested and settings.test_share and settings.pool != "no_test":
        notes.append(
            f"{len(untested):,} of {len(splits):,} clients have too few rows for test rows of their own: "
            f"{listed(untested)}"
        )
    return tuple(notes)


def _name(raw: RawData, client: int) -> str:
    return raw.client_names[client] if raw.client_names else str(client)


def _pool_and_common(raw: RawData, settings: DataSettings, seed: int) -> tuple[Integers, Integers | None]:
    """The rows to deal, and the rows of the common test set (None: it is made of what is dealt)."""
    everything = np.arange(len(raw.y))
    common = None
    pool = everything
    official = raw.split is not None and bool(raw.split.any())
    apart = parse(settings.partition)[0].name == "pflbed"
    if _sets_aside(raw, settings, official):
        if official:
            common = np.flatnonzero(raw.split == 1)
            _refuse_groups_on_both_sides(raw, common, settings)
        elif not apart:
            common = _common_test(raw, everything, seed)
        if common is not None:
            pool = np.setdiff1d(everything, common)
            if not len(common) or not len(pool):
                raise MotetError(
                    f"data {settings.name!r} has too few samples ({len(everything)}) to set test data aside"
                )
    elif not settings.test_share and not apart and settings.pool != "no_test":
        raise MotetError("pool 'all' with test_share 0 leaves no test data; accepted: a test_share above 0")
    if settings.subset < 1:
        pool = _stratified(raw, pool, settings.subset, 1, numpy_generator(seed, "subset"))
    if settings.long_tail > 1:
        if common is None or apart:
            raise MotetError(
                "data.long_tail leaves the test set as it is, so it needs one of its own; accepted: pool = 'train' "
                "with a partition that sets no data aside"
            )
        pool = tail(raw, pool, settings.long_tail, numpy_generator(seed, "long-tail"))
        if settings.long_tail_test:
            common = tail(raw, common, settings.long_tail, numpy_generator(seed, "long-tail-test"))
    return pool, common


def _sets_aside(raw: RawData, settings: DataSettings, official: bool) -> bool:
    """Return whether a common test set is kept from what is dealt.

    Natural clients of a user's own data test on rows of their own, so that none are taken from them for a common set.
    """
    natural = parse(settings.partition)[0].name == "natural" and raw.own
    if settings.pool == "no_test":
        return official or not natural
    if settings.pool != AUTO:
        return settings.pool == "train"
    return official or not natural or not settings.test_share


def _common_test(raw: RawData, rows: Integers, seed: int) -> Integers:
    """Return a fifth of all rows: at random from every class, the latest where rows have a time, whole groups."""
    rng = numpy_generator(seed, "common-test")
    wanted = int(COMMON_TEST_SHARE * len(rows))
    if raw.group is None:
        if raw.time is not None:
            return np.sort(by_time(raw.time, rows)[len(rows) - wanted :])
        return _stratified(raw, rows, COMMON_TEST_SHARE, 0, rng)
    groups = rows_by_value(raw.group[rows])
    chosen = list[Integers]()
    for of_class in rows_by_value(majority(raw, rows, groups)) if raw.time is None else ():
        mixed = rng.permutation(of_class)
        chosen += [rows[groups[i]] for i in mixed[: round(COMMON_TEST_SHARE * len(mixed))]]
    return np.sort(joined(chosen or cut_from_end(in_order(raw, rows, rng), wanted)[1]))


def _refuse_groups_on_both_sides(raw: RawData, test: Integers, settings: DataSettings) -> None:
    if raw.group is None:
        return
    trained = np.setdiff1d(np.arange(len(raw.y)), test)
    both = len(np.intersect1d(raw.group[trained], raw.group[test]))
    if both:
        raise MotetError(
            f"{both:,} groups of data.group {shown(settings.group)} have rows in the official training and test set; "
            f"accepted: data.pool = all, which splits anew"
        )


def _stratified(raw: RawData, rows: Integers, share: float, least: int, rng: np.random.Generator) -> Integers:
    """A share of the rows of every class (and domain), at least so many of each, in rising order."""
    stratum = raw.y if raw.domain is None else raw.y + raw.classes * np.unique(raw.domain, return_inverse=True)[1]
    chosen = []
    for where in rows_by_value(stratum[rows]):
        members = rows[where]
        chosen.append(rng.permutation(members)[: max(least, round(share * len(members)))])
    return np.sort(np.concatenate(chosen))


def _fewer(split: Split, share: float) -> Split:
    """The first of a new client's training rows, which lie at random: a smaller share is part of a larger one."""
    train, val, test = split
    return train[: max(1, round(share * len(train)))], val, test


def _draw_new(clients: int, settings: DataSettings, seed: int) -> set[int]:
    """Draw the ids of the clients that are held out as new."""
    count = new_of(clients, settings.new_clients)
    return set(numpy_generator(seed, "new-clients").permutation(clients)[:count].tolist())


def _names(raw: RawData, pool: Integers, rows_per_client: RowsPerClient, partition: str) -> list[str]:
    """Return the names or numbers of natural clients in the data; other clients have an empty name."""
    if parse(partition)[0].name != "natural" or raw.client is None:
        return [""] * len(rows_per_client)
    return [_name(raw, int(raw.client[pool[rows[0]]])) for rows in rows_per_client]
