"""How samples are dealt to clients. Every sample goes to exactly one client.

A partition is written `name` or `name:argument`, as in `dirichlet:0.3`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from motet.data.raw import Integers
from motet.errors import MotetError, shown, unknown
from motet.rng import numpy_generator
from motet.room import refuse_if_too_large

MOST_DRAWS = 1000
MOST_CUTS = 2_000_000  # of classes, in all draws: minutes
SMALLEST, LARGEST = 1e-9, 1e9
"""Of a partition's argument: beyond them all is alike, and shares are no numbers any more."""

_BYTES_OF_A_PIECE = 150

Hands = list[Integers]
"""One array of row numbers per client."""
Shares = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Table:
    """What is on the table when the dealing starts."""

    spec: str
    argument: float
    y: Integers
    clients: int
    seed: int
    least: int
    client_column: Integers | None
    domain: Integers | None = None
    """The domain of each row, for ways of dealing within domains."""

    def rows_by_class(self) -> list[Integers]:
        """The rows of each class that occurs, in class order."""
        return rows_by_value(self.y)

    def generator(self) -> np.random.Generator:
        """Motet's own randomness for dealing."""
        return numpy_generator(self.seed, "partition")

    def legacy_generator(self) -> np.random.RandomState:
        """The generator behind partitions that other code published."""
        return np.random.RandomState(self.seed % 2**32)


@dataclass(frozen=True)
class Partition:
    """A named way to deal. `argument` names what follows the colon, or is empty."""

    name: str
    argument: str
    accepted: str
    summary: str
    paper: str
    deal: Callable[[Table], Hands]
    least: int = 1


def deal(
    spec: str,
    y: Integers,
    clients: int,
    seed: int,
    client_column: Integers | None = None,
    min_size: int | None = None,
    domain: Integers | None = None,
) -> Hands:
    """Deal the rows of y to clients, as the partition `spec` says; no client gets fewer than min_size."""
    partition, argument = parse(spec)
    least = partition.least if min_size is None else min_size
    needed = max(1, least)  # nobody can take part without a sample
    if clients * needed > len(y) and partition.name != "natural":
        raise MotetError(
            f"partition {spec!r} cannot give {clients} clients at least {needed} of {len(y)} samples each; "
            f"accepted: fewer clients or a smaller min_size"
        )
    hands = partition.deal(Table(spec, argument, y, clients, seed, least, client_column, domain))
    for client, rows in enumerate(hands):
        if len(rows) < least:
            raise MotetError(
                f"partition {spec!r} gives client {client} only {len(rows)} samples; accepted: at least {least} "
                f"(use fewer clients or a smaller min_size)"
            )
    return hands


def parse(spec: str) -> tuple[Partition, float]:
    """The partition and its argument (0 where there is none)."""
    name, colon, text = spec.partition(":")
    if name not in PARTITIONS:
        raise unknown("partition", name, PARTITIONS)
    partition = PARTITIONS[name]
    if not partition.argument:
        if colon:
            raise MotetError(f"partition {name!r} takes no argument, not {shown(text)}; accepted: {name}")
        return partition, 0.0
    whole = partition.argument in ("CLASSES", "SHARDS")
    try:
        value = float(int(text)) if whole else float(text)
    except (ValueError, OverflowError):
        value = math.nan
    accepted = f"{name}:{partition.argument}, {partition.accepted}"
    if not (math.isfinite(value) and value > 0):
        raise MotetError(f"partition {name!r} has argument {shown(text)}; accepted: {accepted}")
    if not SMALLEST <= value <= LARGEST:
        raise MotetError(
            f"partition {name!r} has argument {shown(text)}; accepted: {accepted}, from {SMALLEST:g} to {LARGEST:g}"
        )
    return partition, value


def rows_by_value(column: Integers) -> list[Integers]:
    """The rows of each value that occurs, by rising value; the rows of one rise too."""
    order = np.argsort(column, kind="stable")
    if not len(order):
        return []
    return np.split(order, np.flatnonzero(np.diff(column[order])) + 1)


def describe_partitions() -> list[dict[str, str]]:
    """One entry per partition, for `motet list partitions`."""
    return [
        {"name": p.name, "argument": p.argument, "accepted": p.accepted, "summary": p.summary, "paper": p.paper}
        for p in PARTITIONS.values()
    ]


def deal_iid(table: Table) -> Hands:
    """Shuffle, then equal stacks."""
    return np.array_split(table.generator().permutation(len(table.y)), table.clients)


def deal_dirichlet(table: Table) -> Hands:
    """Client m gets a share q_c[m] of class c, q_c ~ Dir(alpha); drawn again while a client is too small."""
    rng = table.generator()

    def draw() -> Stacks | None:
        stacks = Stacks(table.clients)
        for rows in table.rows_by_class():
            rng.shuffle(rows)
            if not stacks.add(rows, rng.dirichlet(np.full(table.clients, table.argument))):
                return None
        return stacks

    return _redraw(table, draw)


def deal_dirichlet_balanced(table: Table) -> Hands:
    """As dirichlet, but a client that already holds its equal share of all samples gets no more classes.

    The order of the legacy generator's calls (per class: shuffle, then draw) is part of the published partitions.
    """
    rng = table.legacy_generator()
    fair_size = len(table.y) / table.clients

    def draw() -> Stacks | None:
        stacks = Stacks(table.clients)
        for rows in table.rows_by_class():
            rng.shuffle(rows)
            shares = rng.dirichlet(np.full(table.clients, table.argument)) * (stacks.sizes < fair_size)
            if not stacks.add(rows, shares / max(shares.sum(), np.finfo(float).tiny)):
                return None
        return stacks

    return _redraw(table, draw)


def deal_pathological(table: Table) -> Hands:
    """Class c goes to the first ceil(N/C * k) clients that hold fewer than k classes (DBE's assignment).

    Within a class all but the last client get a random size in [n/10, n) around the mean n; the last gets the rest.
    """
    rng = table.legacy_generator()
    by_class = table.rows_by_class()
    budget = np.full(table.clients, min(int(table.argument), len(by_class)))
    hands: list[list[Integers]] = [[] for _ in range(table.clients)]
    takers_per_class = math.ceil(table.clients / len(by_class) * table.argument)
    for rows in by_class:
        takers = np.flatnonzero(budget)[:takers_per_class]
        if not len(takers) or len(rows) < len(takers):
            raise MotetError(
                f"partition {table.spec!r} finds {len(takers)} of {table.clients} clients for the {len(rows)} samples "
                f"of class {table.y[rows[0]]}; accepted: at least one client per class and one sample per client"
            )
        mean = len(rows) / len(takers)
        low = max(1, int(mean / 10))
        sizes = rng.randint(low, max(low + 1, int(mean)), len(takers) - 1)
        for client, piece in zip(takers, np.split(rows, np.cumsum(sizes)), strict=True):
            hands[client].append(piece)
        budget[takers] -= 1
    return [np.concatenate([np.empty(0, np.int64), *hand]) for hand in hands]


def deal_shards(table: Table) -> Hands:
    """Sort by label, cut into k*N shards; client i gets shards i, i+N, i+2N, ... (SuPerFed's code)."""
    shards = _label_shards(table)
    return [np.concatenate(shards[client :: table.clients]) for client in range(table.clients)]


def deal_random_shards(table: Table) -> Hands:
    """Sort by label, cut into k*N shards; each client gets k of them at random (McMahan et al.)."""
    shards = _label_shards(table)
    mixed = table.generator().permutation(len(shards)).reshape(table.clients, -1)
    return [np.concatenate([shards[shard] for shard in chosen]) for chosen in mixed]


def deal_natural(table: Table) -> Hands:
    """One client per value of the data's client column, in rising order."""
    if table.client_column is None:
        others = ", ".join(name for name in PARTITIONS if name != "natural")
        raise MotetError(f"partition 'natural' needs data with a field 'client'; accepted for this data: {others}")
    return rows_by_value(table.client_column)


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

    def hands(self) -> Hands:
        """What each client holds, class after class."""
        cut = [(rows, [0, *cuts.tolist(), len(rows)]) for rows, cuts in self._cut]
        return [np.concatenate([rows[at[i] : at[i + 1]] for rows, at in cut]) for i in range(len(self.sizes))]


def _redraw(table: Table, draw: Callable[[], Stacks | None]) -> Hands:
    classes = len(np.unique(table.y))
    refuse_if_too_large(
        classes * table.clients * _BYTES_OF_A_PIECE,
        f"partition {table.spec!r} of {classes} classes to {table.clients} clients",
        "fewer clients",
    )
    draws = min(MOST_DRAWS, max(20, MOST_CUTS // classes))
    for _ in range(draws):
        stacks = draw()
        if stacks is not None and stacks.sizes.min() >= table.least:
            return stacks.hands()
    raise MotetError(
        f"partition {table.spec!r}: none of {draws} draws gave each of {table.clients} clients at least "
        f"{table.least} samples; accepted: a larger argument, fewer clients or a smaller min_size"
    )


def _label_shards(table: Table) -> list[Integers]:
    """Equal cuts of the rows in label order; where it does not divide, the first shards hold one more."""
    shards = int(table.argument) * table.clients
    if shards > len(table.y):
        raise MotetError(
            f"partition {table.spec!r} cuts {len(table.y)} samples into {shards} shards; accepted: at most "
            f"{len(table.y) // table.clients} shards for each of {table.clients} clients"
        )
    return np.array_split(np.argsort(table.y, kind="stable"), shards)


_PARTITIONS = (
    Partition(
        name="iid",
        argument="",
        accepted="",
        summary="every client gets an equal random share",
        paper="McMahan et al., Communication-Efficient Learning, AISTATS 2017",
        deal=deal_iid,
    ),
    Partition(
        name="dirichlet",
        argument="ALPHA",
        accepted="a number above 0 (smaller is more uneven)",
        summary="each class is shared out by Dir(ALPHA); clients differ in size",
        paper="Hsu, Qi and Brown, Measuring the Effects of Non-Identical Data Distribution, 2019; FED-ROD, ICLR 2022",
        deal=deal_dirichlet,
        least=10,
    ),
    Partition(
        name="dirichlet-balanced",
        argument="BETA",
        accepted="a number above 0 (smaller is more uneven)",
        summary="dirichlet, but a client with its equal share gets no more (PGFed, DBE, SuPerFed)",
        paper="Lin et al., Ensemble Distillation, NeurIPS 2020; PGFed, ICCV 2023; DBE, NeurIPS 2023",
        deal=deal_dirichlet_balanced,
        least=40,
    ),
    Partition(
        name="pathological",
        argument="CLASSES",
        accepted="a whole number from 1, the classes per client",
        summary="each client holds CLASSES classes, assigned in order, uneven sizes (DBE)",
        paper="Zhang et al., Eliminating Domain Bias (DBE), NeurIPS 2023",
        deal=deal_pathological,
    ),
    Partition(
        name="shards",
        argument="SHARDS",
        accepted="a whole number from 1, the shards per client",
        summary="sorted by label and cut; client i gets every N-th shard from i (SuPerFed's code)",
        paper="Hahn, Jeong and Lee, SuPerFed, KDD 2022",
        deal=deal_shards,
    ),
    Partition(
        name="random-shards",
        argument="SHARDS",
        accepted="a whole number from 1, the shards per client",
        summary="sorted by label and cut; each client gets SHARDS random shards",
        paper="McMahan et al., Communication-Efficient Learning, AISTATS 2017",
        deal=deal_random_shards,
    ),
    Partition(
        name="natural",
        argument="",
        accepted="",
        summary="one client per value of the data's client column",
        paper="Caldas et al., LEAF, 2018",
        deal=deal_natural,
    ),
)
PARTITIONS: dict[str, Partition] = {partition.name: partition for partition in _PARTITIONS}
