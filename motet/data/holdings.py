"""What is there where a client's work is done: its samples, or, where data are elsewhere, enough to serve a model."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NoReturn, Protocol

import torch
from torch import Tensor

from motet.data.facts import FederationFacts
from motet.data.federation import ClientData, Federation, Samples
from motet.data.prepare import Prepare
from motet.errors import MotetError


class Holdings(Protocol):
    """The data that the process of a client has: a whole federation, one site, or none."""

    @property
    def clients(self) -> Sequence[ClientData] | Mapping[int, ClientData]:
        """The data of each client that is here, by its number."""

    @property
    def classes(self) -> int:
        """Return how many classes the whole federation has."""

    @property
    def prepare(self) -> Prepare:
        """Return the preparation that makes network input of stored samples."""

    def common_test(self, client: ClientData) -> Samples | None:
        """The test set that a client is also scored on; None where it has none."""

    def shared_data(self) -> Samples:
        """The small balanced set that some methods show to every client."""

    def pooled(self) -> ClientData:
        """Everybody's data as one client's, for the centralized yardstick."""


@dataclass(frozen=True, eq=False)
class Site:
    """One client's holdings: its own data, the common test set if it was given one, and nothing of the others."""

    own: ClientData
    classes: int
    test: Samples | None = None
    shared: Samples | None = None  # only where the method declares that clients see it

    @classmethod
    def of(cls, federation: Federation, own: ClientData, shows_shared_data: bool) -> "Site":
        """A client of a federation by itself, with memory of its own."""
        shared = _copy(federation.shared_data()) if shows_shared_data else None
        alone = replace(own, train=_copy(own.train), val=_copy(own.val), test=_copy(own.test), given_name="")
        return cls(alone, federation.classes, _copy(federation.common_test(own)), shared)

    @cached_property
    def clients(self) -> Mapping[int, ClientData]:
        """Return the one client of this site, by its number."""
        return {self.own.id: self.own}

    @property
    def prepare(self) -> Prepare:
        """Return the preparation, which is the same at every site."""
        return self.own.train.prepare

    def common_test(self, client: ClientData) -> Samples | None:
        """Return the common test set of this client's domain."""
        return self.test

    def shared_data(self) -> Samples:
        """Return the samples that the federation shares with every client."""
        if self.shared is None:
            raise MotetError(f"client {self.own.id} was given no shared data; accepted: a method that declares it")
        return self.shared

    def pooled(self) -> ClientData:
        """The yardstick's one client holds everybody's data, and is the only one that has it."""
        return self.clients[-1]


def _copy(samples: Samples) -> Samples:
    return Samples(samples.x.clone(), samples.y.clone(), samples.prepare)


# -------- A federation whose samples are elsewhere


class NeedsData(MotetError):
    """Something that only the samples of a client can tell."""


class AbsentSamples(Samples):
    """Samples of a known number whose content is elsewhere; their use raises a `MotetError`."""

    whose: str
    count: int

    def __init__(self, whose: str, count: int, prepare: Prepare):
        for name, value in (("whose", whose), ("count", count), ("prepare", prepare)):
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return self.count

    def _refuse(self) -> NoReturn:
        raise NeedsData(f"this needs the data of {self.whose}, which are not here")

    @property
    def x(self) -> Tensor:
        self._refuse()

    @property
    def y(self) -> Tensor:
        self._refuse()

    def part(self, start: int, stop: int) -> Samples:
        """Return a part, which is not here either."""
        return AbsentSamples(self.whose, stop - start, self.prepare)

    def batch(self, rows: Tensor, rng: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        self._refuse()

    def all_batches(self, size: int) -> Iterator[tuple[Tensor, Tensor]]:
        self._refuse()


@dataclass(frozen=True, eq=False)
class AbsentFederation:
    """The `Holdings` of a machine that has a run's folder and none of its data."""

    facts: FederationFacts
    prepare: Prepare

    @property
    def classes(self) -> int:
        """Return how many classes there are."""
        return self.facts.classes

    @cached_property
    def clients(self) -> dict[int, ClientData]:
        """Return all clients by number, with samples that are not here."""
        return {c.id: self._client(c.id, (c.train, c.val, c.test), c.new, c.name) for c in self.facts.clients}

    def common_test(self, client: ClientData) -> Samples | None:
        """Return samples that are not here."""
        return None

    def shared_data(self) -> Samples:
        """Return samples that are not here; only their use raises."""
        return AbsentSamples("the federation's shared set", 1, self.prepare)

    def pooled(self) -> ClientData:
        """Return the one client that holds all data, for the centralized yardstick."""
        return self._client(-1, (1, 0, 0), False, "")

    def _client(self, id: int, sizes: tuple[int, int, int], new: bool, name: str) -> ClientData:
        train, val, test = (AbsentSamples(f"client {name or id}", size, self.prepare) for size in sizes)
        return ClientData(id, train, val, test, None, new, name)
