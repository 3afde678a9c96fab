"""From the [data] section to a federation: load, change, deal, gather, arrange."""

import hashlib
import json
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from motet.config.data_section import DataSettings
from motet.data.built_once import kept_or_built
from motet.data.corruption import add_label_noise, noise_of, poison_labels
from motet.data.domains import simulate
from motet.data.federation import ClientData, Federation, Samples
from motet.data.image_changes import augment_of, resized
from motet.data.partitions.assignment import Dealt, deal_rows
from motet.data.partitions.registry import inside, parse
from motet.data.partitions.splits import Split
from motet.data.prepare import Prepare, fit_prepare
from motet.data.prepare_table import TablePrepare
from motet.data.readers.raw import Integers, RawData, dealt_by
from motet.data.sources import load
from motet.data.sources.registry import files_of
from motet.errors import MotetError, shown
from motet.training.randomness import numpy_generator


def build(settings: DataSettings, seed: int) -> Federation:
    """The federation these settings describe; the same for the same partition seed, on every machine."""
    if settings.partition_seed is not None:
        seed = settings.partition_seed
    return kept_or_built(settings, seed, files_of, _build)


def _build(settings: DataSettings, seed: int) -> Federation:
    """Load, change, deal, gather, arrange."""
    noise = noise_of(settings.label_noise, settings.label_noise_swapped)
    raw = load(settings)
    settings = settings.model_copy(update={"partition": dealt_by(settings.partition, raw.client is not None)})
    _refuse_classes_of_numbers(raw, settings)
    raw, settings = _changed(raw, settings, seed)
    dealt = _dealt(raw, settings, seed)
    splits, new = dealt.splits, dealt.new
    malicious = _draw_malicious([i for i in range(len(splits)) if i not in new], settings, seed)

    seen = dealt.pool if settings.normalize_on == "all" else _training_rows(splits, new)
    augment = augment_of(settings.augment, settings.augment_pad, settings.augment_scale)
    constants = (settings.normalize_mean, settings.normalize_std)
    prepare = fit_prepare(raw, settings.normalize, seen, augment, constants)
    stored = _gather(raw, np.concatenate([rows for split in splits for rows in split]), prepare)
    clients = _cut(stored, splits, raw.domain, new, dealt.names, malicious)
    for client in clients if noise.rate else ():
        add_label_noise(client, noise, raw.classes, seed, settings.label_noise_on_test)
    for attacker in malicious:
        poison_labels(clients[attacker], raw.classes, seed)
    common = np.concatenate([test for _, _, test in splits]) if dealt.common is None else dealt.common
    validation = None if dealt.validation is None else _gather(raw, dealt.validation, prepare)
    theirs = dealt.common is None  # with the labels that they have
    test = Samples.union([client.test for client in clients]) if theirs else _gather(raw, common, prepare)
    federation = Federation(
        name=settings.name,
        classes=raw.classes if raw.target is None else 1,
        clients=clients,
        stored=stored,
        test=test,
        test_domains=_domains(raw, common),
        default_net=raw.net,
        content_hash=_hash(stored, test, clients, validation),
        shared_per_class=settings.shared_per_class,
        test_is_clients=theirs,
        class_names=raw.class_names if raw.target is None else (_label(prepare),),
        domain_names=raw.domain_names,
        validation=validation,
        validation_domains=_domains(raw, dealt.validation),
        origin=raw.origin,
        notes=(*raw.notes, *dealt.notes, *prepare.notes),
        no_test=settings.pool == "no_test",
    )
    if shared := federation.shared_validation():
        federation.clients = [replace(client, val=shared[client.domain], shares_val=True) for client in clients]
    return federation


def _label(prepare: Prepare) -> str:
    assert isinstance(prepare, TablePrepare)  # numbers are predicted from tables alone
    return prepare.schema.label


def _refuse_classes_of_numbers(raw: RawData, settings: DataSettings) -> None:
    """Refuse what changes classes where the label is a number."""
    if raw.target is None:
        return
    asked = {"label_noise": settings.label_noise, "malicious": settings.malicious}
    asked["long_tail"] = settings.long_tail if settings.long_tail > 1 else ""
    asked["domains"] = settings.domains if "permute" in settings.domains else ""
    for field, value in asked.items():
        if value:
            raise MotetError(f"data.{field} is {shown(value)}, which needs classes, and the target is a number")


def _dealt(raw: RawData, settings: DataSettings, seed: int) -> Dealt:
    """Deal the rows as the settings say; where rows do not suffice, the error names columns that may be clients."""
    try:
        return deal_rows(raw, settings, seed)
    except MotetError as error:
        if not raw.may_name_clients:
            raise
        columns = " or ".join(map(shown, raw.may_name_clients))
        raise MotetError(f"{error}, or real clients by --client, perhaps {columns}") from None


def _changed(raw: RawData, settings: DataSettings, seed: int) -> tuple[RawData, DataSettings]:
    """The data as they are dealt: in another size, in simulated domains, which are dealt by themselves."""
    if settings.resize:
        if raw.kind != "image":
            raise MotetError(f"data.resize is for images, and these data are of kind {raw.kind!r}; accepted: 0")
        raw = replace(raw, x=resized(raw.x, settings.resize))
    if settings.domains:
        raw = simulate(raw, settings.domains, seed)
        if not parse(settings.partition)[0].by_itself and not inside(settings.partition):
            settings = settings.model_copy(update={"partition": f"{settings.partition}@domain"})
    if inside(settings.partition) == "client" and raw.client is not None:
        raw = replace(raw, domain=raw.client, domain_names=raw.client_names)  # each is dealt as a domain is
    return raw, settings


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
    """Return the rows that training sees: no test data, no validation data, nothing of new clients."""
    return np.sort(np.concatenate([train for i, (train, _, _) in enumerate(splits) if i not in new]))


def _domains(raw: RawData, rows: Integers | None) -> Tensor | None:
    return None if raw.domain is None or rows is None else torch.from_numpy(raw.domain[rows])


def _gather(raw: RawData, rows: Integers, prepare: Prepare) -> Samples:
    y = raw.y if raw.target is None else raw.target
    return Samples(torch.from_numpy(raw.x[rows]).contiguous(), torch.from_numpy(y[rows]), prepare)


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


def _hash(stored: Samples, test: Samples, clients: list[ClientData], validation: Samples | None) -> str:
    """Return a hash of stored bytes and cuts alone: computed floats may differ in the last bit between machines."""
    cuts = [[len(c.train), len(c.val), len(c.test), c.domain, c.new] for c in clients]
    shapes = [list(stored.x.shape), str(stored.x.dtype)]
    attackers = [c.id for c in clients if c.malicious]
    shared = [len(validation)] if validation else []
    told = [
        cuts,
        shapes,
        *stored.prepare.hash_extras,
        *([attackers] if attackers else []),
        *([{"validation": shared}] if shared else []),
    ]
    digest = hashlib.sha256(json.dumps(told).encode())
    for samples in (stored, test, *([validation] if validation else [])):
        for tensor in (samples.x, samples.y):
            digest.update(tensor.numpy().data)
    return digest.hexdigest()
