"""A federation: clients with their samples, the common test set, and the form in which it goes to another process."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from weakref import finalize

import torch
from torch import Tensor

from motet.data.input import Input
from motet.data.prepare import Prepare
from motet.errors import MotetError
from motet.training.randomness import generator


class _Budget:
    """The memory that prepared samples may still take in this process."""

    def __init__(self, left: int):
        self.left = left

    def free(self, size: int) -> None:
        """Give back so many bytes."""
        self.left += size


_KEPT = _Budget(256 * 2**20)


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples as stored (images stay uint8), turned into network input one batch at a time."""

    x: Tensor
    y: Tensor
    """Numbers of classes, or float64 numbers to predict, in their own unit."""
    prepare: Prepare

    def __len__(self) -> int:
        return len(self.y)

    @property
    def augments(self) -> bool:
        """Whether training batches vary, which takes randomness."""
        return self.prepare.augment is not None

    def batch(self, rows: Tensor, rng: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Return network input and labels of these rows; with a generator, augmented as the preparation says."""
        if self._prepared is not None:
            x, y = self._prepared
            return x.index_select(0, rows), y.index_select(0, rows)
        x = self.x.index_select(0, rows)
        if rng is not None and self.prepare.augment is not None:
            x = self.prepare.augment(x, rng)
        return self.prepare(x), self.prepare.labels(self.y.index_select(0, rows))

    def all_batches(self, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield all samples once, in order and in batches, as network input, for evaluation."""
        if self._prepared is not None:
            for x, y in zip(*(torch.split(whole, size) for whole in self._prepared), strict=True):
                yield x.clone(), y  # a net may work on its input in place
            return
        for start in range(0, len(self), size):
            labels = self.prepare.labels(self.y[start : start + size])
            yield self.prepare(self.x[start : start + size]), labels

    @cached_property
    def _prepared(self) -> tuple[Tensor, Tensor] | None:
        """All samples as network input, made once where the preparation is slow for their size; None elsewhere."""
        size = 4 * len(self) * prod(self.prepare.input.shape) if self.prepare.is_slow else 0
        if not size or size > _KEPT.left:
            return None
        _KEPT.left -= size
        finalize(self, _KEPT.free, size)
        return self.prepare(self.x), self.prepare.labels(self.y)

    def __getstate__(self) -> dict[str, object]:
        """Return the state without what is made again where it arrives."""
        return {name: value for name, value in vars(self).items() if name not in ("_prepared", "_counted")}

    def counts(self, classes: int) -> Tensor:
        """Return how many samples there are of each class; numbers are of one kind. Never change it in place."""
        known = self._counted.get(classes)
        if known is None:
            with torch.inference_mode(False):  # it outlives the scoring in which it may be counted first
                numbers = self.y.is_floating_point()
                known = torch.tensor([len(self)]) if numbers else torch.bincount(self.y, minlength=classes)
            self._counted[classes] = known
        return known

    @cached_property
    def _counted(self) -> dict[int, Tensor]:
        """What was counted so far, by the number of classes: samples are counted in every task, and never change."""
        return {}

    def part(self, start: int, stop: int) -> "Samples":
        """Return consecutive samples as a view, without a copy."""
        return Samples(self.x[start:stop], self.y[start:stop], self.prepare)

    def take(self, rows: Tensor) -> "Samples":
        """Return a copy of these rows."""
        return Samples(self.x.index_select(0, rows), self.y.index_select(0, rows), self.prepare)

    def classes_only(self, held: Tensor) -> "Samples":
        """A copy of the samples whose class is marked in `held`, one boolean per class; all, if labels are numbers."""
        if self.y.is_floating_point():
            return self
        return self.take(held[self.y].nonzero().squeeze(1))

    @staticmethod
    def union(parts: list["Samples"]) -> "Samples":
        """A copy of several samples of one federation, one after the other."""
        return Samples(torch.cat([p.x for p in parts]), torch.cat([p.y for p in parts]), parts[0].prepare)


@dataclass(frozen=True, eq=False)
class ClientData:
    """What one client holds. `domain` is None when its samples come from several, or have none."""

    id: int
    train: Samples
    val: Samples
    test: Samples
    domain: int | None = None
    new: bool = False
    given_name: str = ""
    malicious: bool = False
    """Trains on labels drawn at random, and may do worse: `data.attack`."""
    shares_val: bool = False
    """Whether `val` is one set for all clients of its domain rather than its own."""

    @property
    def name(self) -> str:
        """Return the name that the data give this client, or else its number as text."""
        return self.given_name or str(self.id)

    def __post_init__(self) -> None:
        if not len(self.train):
            raise MotetError(f"client {self.id} has no training samples; accepted: at least one (use fewer clients)")

    def counts(self, classes: int) -> Tensor:
        """Return how many samples of each class the client has of its own, over all splits."""
        own = self.train.counts(classes) + self.test.counts(classes)
        return own if self.shares_val else own + self.val.counts(classes)

    def shown(self, validation: bool) -> "ClientData":
        """Return what a method may see of the client: never test data, and validation data only where it needs them."""
        return replace(self, val=self.val if validation else self.val.part(0, 0), test=self.test.part(0, 0))


@dataclass(eq=False)
class Federation:
    """All clients (ids 0 to N-1), the generic test set, and what identifies this data."""

    name: str
    classes: int
    clients: list[ClientData]
    stored: Samples
    """Every client's samples in one block; the clients' splits are slices of it."""
    test: Samples
    test_domains: Tensor | None
    default_net: str
    content_hash: str
    """SHA-256 of the samples as dealt, the cuts between splits, and who is new."""
    shared_per_class: int = 10
    """How many samples of each class `shared_data` holds."""
    test_is_clients: bool = False
    """Whether the generic test set is all clients' test data, one client after the other."""
    class_names: tuple[str, ...] = ()
    """As the data call them, or else their numbers."""
    domain_names: tuple[str, ...] = ()
    """Of the domains 0, 1, …; empty where they are numbers and no more."""
    validation: Samples | None = None
    """What all clients of a domain have for validation, where they share it."""
    validation_domains: Tensor | None = None
    origin: str = ""
    """Of a data set by name: how many samples from where, under which licence."""
    notes: tuple[str, ...] = ()
    """What a user should know of how the data were read."""
    no_test: bool = False
    """Whether there are no test data because none were asked for."""

    def __post_init__(self) -> None:
        self.class_names = self.class_names or tuple(map(str, range(self.classes)))
        if self.no_test:
            return
        if not len(self.test):
            raise MotetError(
                f"data {self.name!r} leaves no test samples; accepted: a larger data.test_share, fewer clients or more "
                f"samples"
            )
        for client in self.clients:
            if not len(self.common_test(client)):
                raise MotetError(
                    f"client {client.id} of domain {client.domain} finds no common test data in {self.name}; "
                    f"accepted: at least one test sample per domain"
                )

    @property
    def prepare(self) -> Prepare:
        """Return the preparation that makes network input of stored samples, or of a user's."""
        return self.stored.prepare

    @property
    def input(self) -> Input:
        """Return the kind and shape of what a net is given."""
        return self.prepare.input

    @property
    def target(self) -> str:
        """Return the name of the number that is predicted; empty for classes."""
        return self.class_names[0] if self.prepare.target is not None else ""

    @property
    def training_ids(self) -> list[int]:
        """Return the ids of the clients that may take part in rounds."""
        return [client.id for client in self.clients if not client.new]

    @property
    def new_ids(self) -> list[int]:
        """Return the ids of the clients that training never sees."""
        return [client.id for client in self.clients if client.new]

    def common_test(self, client: ClientData) -> Samples:
        """The generic test set, restricted to the client's domain where it has one."""
        return self.test if client.domain is None else self._domain_tests[client.domain]

    def shared_validation(self) -> dict[int | None, Samples]:
        """Return the samples that the clients of each domain share for validation; empty where they share none."""
        return {} if self.validation is None else by_domain(self.validation, self.validation_domains)

    def domain_name(self, client: ClientData) -> str | None:
        """The client's domain as the data call it, or else its number."""
        if client.domain is None:
            return None
        return self.domain_names[client.domain] if self.domain_names else str(client.domain)

    def pooled(self) -> ClientData:
        """Return all training clients as one, with id -1, for the centralized yardstick."""
        return self._pooled

    def shared_data(self) -> Samples:
        """The small balanced set that some methods show to every client (FED-ROD's D_meta)."""
        return self._shared_data

    @cached_property
    def _shared_data(self) -> Samples:
        """`shared_per_class` samples of each class, drawn from all training clients' data but the malicious ones'.

        Rows count as if that data lay in one block, which would cost every worker a copy of everything.
        """
        members = [self.clients[i].train for i in self.training_ids if not self.clients[i].malicious]
        y = torch.cat([member.y for member in members])
        order = torch.randperm(len(y), generator=generator(int(self.content_hash[:8], 16), "shared-data"))
        rows = torch.cat([order[y[order] == c][: self.shared_per_class] for c in range(self.classes)])
        ends = torch.tensor([len(member) for member in members]).cumsum(0)
        owners = torch.searchsorted(ends, rows, right=True)
        x = [members[owner].x[row] for owner, row in zip(owners, rows - ends[owners], strict=True)]  # from behind
        return Samples(torch.stack(x), y[rows], self.prepare)

    @cached_property
    def _pooled(self) -> ClientData:
        members = [self.clients[i] for i in self.training_ids]
        return ClientData(
            id=-1,
            train=Samples.union([m.train for m in members]),
            val=Samples.union([m.val for m in members]) if self.validation is None else self.validation,
            test=Samples.union([m.test for m in members]),
        )

    @cached_property
    def _domain_tests(self) -> dict[int, Samples]:
        found = by_domain(self.test, self.test_domains)
        nothing = self.test.part(0, 0)
        domains = {client.domain for client in self.clients if client.domain is not None}
        return {d: found.get(None, found.get(d, nothing)) for d in domains}


def by_domain(samples: Samples, domains: Tensor | None) -> dict[int | None, Samples]:
    """A copy of each domain's samples; all of them under None where there are no domains."""
    if domains is None:
        return {None: samples}
    return {d: samples.take((domains == d).nonzero().squeeze(1)) for d in set(domains.tolist())}


def counts_table(federation: Federation) -> list[dict[str, int | float | bool | str | list[int] | None]]:
    """The sizes and class counts (over all of a client's samples) of every client, for `motet data show`.

    Where the label is a number, also its mean and deviation at each client.
    """
    return [
        {
            "id": client.id,
            "name": client.name,
            "domain": federation.domain_name(client),
            "train": len(client.train),
            "val": len(client.val),
            "test": len(client.test),
            "new": client.new,
            "malicious": client.malicious,
            "counts": client.counts(federation.classes).tolist(),
            **(_moments(client) if federation.target else {}),
        }
        for client in federation.clients
    ]


def _moments(client: ClientData) -> dict[str, float]:
    y = torch.cat([client.train.y, client.val.y, client.test.y])
    return {"mean": float(y.mean()), "deviation": float(y.std(correction=0))}


# -------- On the way to another process


@dataclass(frozen=True)
class SharedFederation:
    """The blocks of samples, which processes map instead of copying, and how to cut the clients from them."""

    blocks: Federation  # without its clients
    cuts: Tensor  # per client: samples to train, validate and test; whether it is new, malicious, has a domain; which
    names: tuple[str, ...]  # of the clients; empty where they have none but their numbers

    @classmethod
    def of(cls, federation: Federation) -> "SharedFederation":
        """Return the shared form of a federation whose clients are consecutive slices of its stored samples."""
        cuts = [
            [
                len(c.train),
                0 if c.shares_val else len(c.val),
                len(c.test),
                c.new,
                c.malicious,
                c.domain is not None,
                c.domain or 0,
            ]
            for c in federation.clients
        ]
        names = tuple(c.given_name for c in federation.clients)
        return cls(replace(federation, clients=[]), torch.tensor(cuts, dtype=torch.int64), names if any(names) else ())

    def cut(self) -> Federation:
        """Return the whole federation, with clients that are views of the shared blocks."""
        stored, clients, start = self.blocks.stored, [], 0
        shared = self.blocks.shared_validation()
        for id, (*sizes, new, malicious, has_domain, domain) in enumerate(self.cuts.tolist()):
            parts = []
            for size in sizes:
                parts.append(stored.part(start, start + size))
                start += size
            train, val, test = parts
            name = self.names[id] if self.names else ""
            where = domain if has_domain else None
            val = shared.get(where, val)
            clients.append(ClientData(id, train, val, test, where, bool(new), name, bool(malicious), bool(shared)))
        return replace(self.blocks, clients=clients)
