"""What is there where clients' work is done: a whole federation in a simulation, one client at a real site."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

from motet.data.federation import ClientData, Federation, Samples
from motet.data.prepare import Prepare
from motet.errors import MotetError


class Holdings(Protocol):
    """The data that a workplace works with."""

    @property
    def clients(self) -> Sequence[ClientData] | Mapping[int, ClientData]:
        """The data of each client that is here, by its number."""

    @property
    def classes(self) -> int:
        """How many classes the whole federation has."""

    @property
    def prepare(self) -> Prepare:
        """From stored samples to network input."""

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
        """One."""
        return {self.own.id: self.own}

    @property
    def prepare(self) -> Prepare:
        """The same at every site."""
        return self.own.train.prepare

    def common_test(self, client: ClientData) -> Samples | None:
        """Of this client's domain."""
        return self.test

    def shared_data(self) -> Samples:
        """What the federation showed to everybody."""
        if self.shared is None:
            raise MotetError(f"client {self.own.id} was given no shared data; accepted: a method that declares it")
        return self.shared

    def pooled(self) -> ClientData:
        """The yardstick's one client holds everybody's data, and is the only one that has it."""
        return self.clients[-1]


def _copy(samples: Samples) -> Samples:
    return Samples(samples.x.clone(), samples.y.clone(), samples.prepare)
