"""How samples are dealt to clients. Every sample goes to exactly one client, or is set aside for all (pflbed).

A partition is written `name` or `name:argument`, as in `dirichlet:0.3`. `@domain` or `@client` behind it deals each
domain, or each natural client's samples, by itself: `dirichlet:0.3@domain`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from motet.data.partitions.dirichlet import deal_dirichlet, deal_dirichlet_balanced
from motet.data.partitions.pflbed import deal_pflbed
from motet.data.partitions.request import PartitionRequest, RowsPerClient, rows_by_value
from motet.data.readers.raw import Integers
from motet.errors import MotetError, shown, unknown

SMALLEST, LARGEST = 1e-9, 1e9
"""Of a partition's argument: beyond them all is alike, and shares are no numbers any more."""

Inside = Literal["", "domain", "client"]
INSIDE = tuple(filter(None, get_args(Inside)))


@dataclass(frozen=True)
class Partition:
    """A named way to deal. `argument` names what follows the colon, or is empty."""

    name: str
    argument: str
    accepted: str
    summary: str
    paper: str
    deal: Callable[[PartitionRequest], RowsPerClient]
    least: int = 1
    by_itself: bool = False
    """It looks for domains or clients itself: `@` makes no sense."""


def deal(
    spec: str,
    y: Integers,
    clients: int,
    seed: int,
    client_column: Integers | None = None,
    min_size: int | None = None,
    domain: Integers | None = None,
) -> RowsPerClient:
    """Deal the rows of y to clients, as the partition `spec` says; no client gets fewer than min_size."""
    request = make_request(spec, y, clients, seed, client_column, min_size, domain)
    partition, least, where = parse(spec)[0], request.least, inside(spec)
    rows_per_client = _deal_each(partition, request, where) if where else partition.deal(request)
    for client, rows in enumerate(rows_per_client):
        if len(rows) < least:
            raise MotetError(
                f"partition {spec!r} gives client {client} only {len(rows)} samples; accepted: at least {least} "
                f"(use fewer clients or a smaller min_size)"
            )
    return rows_per_client


def make_request(
    spec: str,
    y: Integers,
    clients: int,
    seed: int,
    client_column: Integers | None,
    min_size: int | None,
    domain: Integers | None,
    new: float = 0.0,
) -> PartitionRequest:
    """Return what the partition is given; raise a `MotetError` where there cannot be enough samples."""
    partition, argument = parse(spec)
    least = partition.least if min_size is None else min_size
    needed = max(1, least)  # nobody can take part without a sample
    if clients * needed > len(y) and partition.name != "natural":
        raise MotetError(
            f"partition {spec!r} cannot give {clients} clients at least {needed} of {len(y)} samples each; "
            f"accepted: fewer clients or a smaller min_size"
        )
    return PartitionRequest(spec, argument, y, clients, seed, least, client_column, domain, new)


def parse(spec: str) -> tuple[Partition, float]:
    """The partition and its argument (0 where there is none)."""
    words, at, where = spec.partition("@")
    name, colon, text = words.partition(":")
    if name not in PARTITIONS:
        raise unknown("partition", name, PARTITIONS)
    partition = PARTITIONS[name]
    if at and where not in INSIDE:
        raise MotetError(
            f"partition {name!r} is dealt inside each {shown(where)}; accepted: {words}@domain or {words}@client"
        )
    if at and partition.by_itself:
        raise MotetError(f"partition {name!r} cannot be dealt inside each {where}; accepted: {words}")
    if not partition.argument:
        if colon:
            raise MotetError(f"partition {name!r} takes no argument, not {shown(text)}; accepted: {name}")
        return partition, 0.0
    whole = partition.argument in ("CLASSES", "SHARDS")
    try:
        value = math.nan if not text.isascii() else float(int(text)) if whole else float(text)
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


def inside(spec: str) -> Inside:
    """Return what is dealt by itself: "domain", "client", or an empty text for everything at once."""
    where = spec.partition("@")[2]
    return where if where in INSIDE else ""  # type: ignore[return-value]


def _deal_each(partition: Partition, request: PartitionRequest, where: Inside) -> RowsPerClient:
    """One domain after the other, each to its equal share of the clients; the first ones may have one more."""
    column = request.domain if where == "domain" else request.client_column
    if column is None:
        also = ", or simulated ones (data.domains)" if where == "domain" else ""
        raise MotetError(
            f"partition {request.spec!r} needs data with a field {where!r}; accepted: data that have it{also}"
        )
    groups = rows_by_value(column)
    if request.clients < len(groups):
        raise MotetError(
            f"partition {request.spec!r} has {request.clients} clients for {len(groups)} of a {where}; "
            f"accepted: at least {len(groups)} clients"
        )
    rows_per_client: RowsPerClient = []
    for i, rows in enumerate(groups):
        clients = request.clients // len(groups) + (i < request.clients % len(groups))
        rows_per_client += [rows[part] for part in partition.deal(request.part(rows, clients, stream=i + 1))]
    return rows_per_client


def describe_partitions() -> list[dict[str, str]]:
    """One entry per partition, for `motet list partitions`."""
    return [
        {"name": p.name, "argument": p.argument, "accepted": p.accepted, "summary": p.summary, "paper": p.paper}
        for p in PARTITIONS.values()
    ]


def deal_iid(request: PartitionRequest) -> RowsPerClient:
    """Shuffle all rows and cut them in parts of equal size."""
    return np.array_split(request.generator().permutation(len(request.y)), request.clients)


def deal_pathological(request: PartitionRequest) -> RowsPerClient:
    """Class c goes to the first ceil(N/C * k) clients that hold fewer than k classes (DBE's assignment).

    Within a class all but the last client get a random size in [n/10, n) around the mean n; the last gets the rest.
    """
    rng = request.legacy_generator()
    by_class = request.rows_by_class()
    budget = np.full(request.clients, min(int(request.argument), len(by_class)))
    rows_per_client: list[list[Integers]] = [[] for _ in range(request.clients)]
    takers_per_class = math.ceil(request.clients / len(by_class) * request.argument)
    for rows in by_class:
        takers = np.flatnonzero(budget)[:takers_per_class]
        if not len(takers) or len(rows) < len(takers):
            raise MotetError(
                f"partition {request.spec!r} finds {len(takers)} of {request.clients} clients for the {len(rows)} "
                f"samples of class {request.y[rows[0]]}; accepted: at least one client per class and one "
                f"sample per client"
            )
        mean = len(rows) / len(takers)
        low = max(1, int(mean / 10))
        sizes = rng.randint(low, max(low + 1, int(mean)), len(takers) - 1)
        for client, piece in zip(takers, np.split(rows, np.cumsum(sizes)), strict=True):
            rows_per_client[client].append(piece)
        budget[takers] -= 1
    return [np.concatenate([np.empty(0, np.int64), *parts]) for parts in rows_per_client]


def deal_shards(request: PartitionRequest) -> RowsPerClient:
    """Sort by label, cut into k*N shards; client i gets shards i, i+N, i+2N, ... (SuPerFed's code)."""
    shards = _label_shards(request)
    return [np.concatenate(shards[client :: request.clients]) for client in range(request.clients)]


def deal_random_shards(request: PartitionRequest) -> RowsPerClient:
    """Sort by label, cut into k*N shards; each client gets k of them at random (McMahan et al.)."""
    shards = _label_shards(request)
    mixed = request.generator().permutation(len(shards)).reshape(request.clients, -1)
    return [np.concatenate([shards[shard] for shard in chosen]) for chosen in mixed]


def deal_natural(request: PartitionRequest) -> RowsPerClient:
    """One client per value of the data's client column, in rising order."""
    if request.client_column is None:
        others = ", ".join(name for name in PARTITIONS if name != "natural")
        raise MotetError(f"partition 'natural' needs data with a field 'client'; accepted for this data: {others}")
    return rows_by_value(request.client_column)


def _label_shards(request: PartitionRequest) -> list[Integers]:
    """Equal cuts of the rows in label order; where it does not divide, the first shards hold one more."""
    shards = int(request.argument) * request.clients
    if shards > len(request.y):
        raise MotetError(
            f"partition {request.spec!r} cuts {len(request.y)} samples into {shards} shards; accepted: at most "
            f"{len(request.y) // request.clients} shards for each of {request.clients} clients"
        )
    return np.array_split(np.argsort(request.y, kind="stable"), shards)


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
        by_itself=True,
    ),
    Partition(
        name="pflbed",
        argument="ALPHA",
        accepted="a number above 0 (smaller is more uneven)",
        summary="in each domain a test and a validation set for all its clients, and dirichlet:ALPHA for those that "
        "train and for new ones apart; `clients` counts those of one domain",
        paper="FedBasis and PFLBED: Learning Shareable Bases for Personalized Federated Image Classification, 2022",
        deal=lambda request: deal_pflbed(request).rows_per_client,
        least=10,
        by_itself=True,
    ),
)
PARTITIONS: dict[str, Partition] = {partition.name: partition for partition in _PARTITIONS}
