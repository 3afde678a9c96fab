"""From the [data] section to a federation: load, set the common test aside, deal, split, arrange."""

import hashlib
import json

import numpy as np
import torch

from motet.data.augment import AUGMENTS
from motet.data.corruption import poison_labels
from motet.data.federation import ClientData, Federation, Samples
from motet.data.partitions import deal, parse, rows_by_value
from motet.data.prepare import Prepare, fit_prepare
from motet.data.raw import Integers, RawData
from motet.data.settings import DataSettings
from motet.data.sources import load
from motet.errors import MotetError
from motet.rng import numpy_generator
from motet.room import refuse_if_too_large

COMMON_TEST_SHARE = 0.2
"""Of data without an official test set."""


def build(settings: DataSettings, seed: int) -> Federation:
    """The federation these settings describe; the same for the same partition seed, on every machine."""
    if settings.partition_seed is not None:
        seed = settings.partition_seed
    raw = load(settings)
    pool, common = _pool_and_common(raw, settings, seed)
    client, domain = (None if column is None else column[pool] for column in (raw.client, raw.domain))
    hands = deal(settings.partition, raw.y[pool], settings.clients, seed, client, settings.min_size, domain)
    refuse_if_too_large(
        8 * len(hands) * raw.classes,
        f"data {settings.name!r} with {len(hands)} clients and {raw.classes} classes",
        "fewer",
    )
    splits = [_split(pool[hand], settings, seed, client) for client, hand in enumerate(hands)]
    new = _draw_new(len(hands), settings, seed)
    malicious = _draw_malicious([i for i in range(len(hands)) if i not in new], settings, seed)

    seen = pool if settings.normalize_on == "all" else _training_rows(splits, new)
    prepare = fit_prepare(raw, settings.normalize, seen, AUGMENTS[settings.augment])
    test_is_clients = common is None
    if common is None:
        common = np.concatenate([test for _, _, test in splits])
    stored = _gather(raw, np.concatenate([rows for split in splits for rows in split]), prepare)
    clients = _cut(stored, splits, raw.domain, new, _names(raw, pool, hands, settings.partition), malicious)
    for attacker in malicious:
        poison_labels(clients[attacker], raw.classes, seed)
    test = _gather(raw, common, prepare)
    return Federation(
        name=settings.name,
        classes=raw.classes,
        clients=clients,
        stored=stored,
        test=test,
        test_domains=None if raw.domain is None else torch.from_numpy(raw.domain[common]),
        default_net=raw.net,
        content_hash=_hash(stored, test, clients),
        shared_per_class=settings.shared_per_class,
        test_is_clients=test_is_clients,
        class_names=raw.class_names,
        domain_names=raw.domain_names,
        origin=raw.origin,
        notes=raw.notes,
    )


Split = tuple[Integers, Integers, Integers]
"""The rows of one client's train, val and test splits."""


def _pool_and_common(raw: RawData, settings: DataSettings, seed: int) -> tuple[Integers, Integers | None]:
    """The rows to deal, and the rows of the common test set (None: the clients' test splits make it)."""
    everything = np.arange(len(raw.y))
    common = None
    pool = everything
    if settings.pool == "train":
        if raw.split is not None and raw.split.any():
            common = np.flatnonzero(raw.split == 1)
        else:
            common = _stratified(raw, everything, COMMON_TEST_SHARE, 0, numpy_generator(seed, "common-test"))
        pool = np.setdiff1d(everything, common)
        if not len(common) or not len(pool):
            raise MotetError(f"data {settings.name!r} has too few samples ({len(everything)}) to set test data aside")
    elif not settings.test_share:
        raise MotetError("pool 'all' with test_share 0 leaves no test data; accepted: a test_share above 0")
    if settings.subset < 1:
        pool = _stratified(raw, pool, settings.subset, 1, numpy_generator(seed, "subset"))
    return pool, common


def _stratified(raw: RawData, rows: Integers, share: float, least: int, rng: np.random.Generator) -> Integers:
    """A share of the rows of every class (and domain), at least so many of each, in rising order."""
    stratum = raw.y if raw.domain is None else raw.y + raw.classes * np.unique(raw.domain, return_inverse=True)[1]
    chosen = []
    for where in rows_by_value(stratum[rows]):
        members = rows[where]
        chosen.append(rng.permutation(members)[: max(least, round(share * len(members)))])
    return np.sort(np.concatenate(chosen))


def _split(rows: Integers, settings: DataSettings, seed: int, client: int) -> Split:
    """A client's rows at random into train, val and test; not stratified, as in the papers."""
    mixed = numpy_generator(seed, "split", 0, client).permutation(rows)
    test = int(settings.test_share * len(rows))
    val = int(settings.val_share * (len(rows) - test))
    train = len(rows) - test - val
    return mixed[:train], mixed[train : train + val], mixed[train + val :]


def _draw_new(clients: int, settings: DataSettings, seed: int) -> set[int]:
    """The ids of the clients held out as new."""
    if not settings.new_clients:
        return set()
    count = max(1, round(settings.new_clients * clients))
    if count >= clients:
        raise MotetError(
            f"new_clients {settings.new_clients} leaves no training client of {clients}; accepted: a smaller share"
        )
    return set(numpy_generator(seed, "new-clients").permutation(clients)[:count].tolist())


def _draw_malicious(training: list[int], settings: DataSettings, seed: int) -> set[int]:
    """The ids of the training clients that are attackers, in every round the same."""
    if not settings.malicious:
        return set()
    count = max(1, round(settings.malicious * len(training)))
    if count >= len(training):
        raise MotetError(
            f"data.malicious {settings.malicious} leaves no benign client of {len(training)}; accepted: a smaller share"
        )
    return set(numpy_generator(seed, "malicious").permutation(training)[:count].tolist())


def _training_rows(splits: list[Split], new: set[int]) -> Integers:
    """What training sees: no test data, no validation data, nothing of new clients."""
    return np.sort(np.concatenate([train for i, (train, _, _) in enumerate(splits) if i not in new]))


def _gather(raw: RawData, rows: Integers, prepare: Prepare) -> Samples:
    return Samples(torch.from_numpy(raw.x[rows]).contiguous(), torch.from_numpy(raw.y[rows]), prepare)


def _names(raw: RawData, pool: Integers, hands: list[Integers], partition: str) -> list[str]:
    """Of natural clients, their names or numbers in the data; others have none but their ids."""
    if parse(partition)[0].name != "natural" or raw.client is None:
        return [""] * len(hands)
    values = [int(raw.client[pool[hand[0]]]) for hand in hands]
    return [raw.client_names[value] if raw.client_names else str(value) for value in values]


def _cut(
    stored: Samples,
    splits: list[Split],
    domain: Integers | None,
    new: set[int],
    names: list[str],
    malicious: set[int],
) -> list[ClientData]:
    """The clients as slices of the stored samples, which lie client by client: train, val, test."""
    clients = []
    start = 0
    for id, split in enumerate(splits):
        parts = []
        for rows in split:
            parts.append(stored.part(start, start + len(rows)))
            start += len(rows)
        domains = set() if domain is None else set(domain[np.concatenate(split)].tolist())
        train, val, test = parts
        only = domains.pop() if len(domains) == 1 else None
        clients.append(ClientData(id, train, val, test, only, id in new, names[id], id in malicious))
    return clients


def _hash(stored: Samples, test: Samples, clients: list[ClientData]) -> str:
    """Of stored bytes and cuts only: computed floats may differ in the last bit between machines."""
    cuts = [[len(c.train), len(c.val), len(c.test), c.domain, c.new] for c in clients]
    shapes = [list(stored.x.shape), str(stored.x.dtype)]
    text = [stored.prepare.input.vocabulary] if stored.prepare.kind == "tokens" else []  # or else a vector's bytes
    attackers = [c.id for c in clients if c.malicious]
    digest = hashlib.sha256(json.dumps([cuts, shapes, *text, *([attackers] if attackers else [])]).encode())
    for tensor in (stored.x, stored.y, test.x, test.y):
        digest.update(tensor.numpy().data)
    return digest.hexdigest()
