"""A federation whose samples are elsewhere: enough to serve what was learned, and a sentence where data are needed."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn

import torch
from torch import Tensor

from motet.data.facts import FederationFacts
from motet.data.federation import ClientData, Samples
from motet.data.prepare import Prepare
from motet.errors import MotetError


class NeedsData(MotetError):
    """Something that only the samples of a client can tell."""


class AbsentSamples(Samples):
    """So many samples that are not here."""

    def __init__(self, whose: str, count: int, prepare: Prepare):
        for name, value in (("whose", whose), ("count", count), ("prepare", prepare)):
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return int(self.__dict__["count"])

    def _refuse(self) -> NoReturn:
        raise NeedsData(f"this needs the data of {self.__dict__['whose']}, which are not here")

    @property
    def x(self) -> Tensor:
        self._refuse()

    @property
    def y(self) -> Tensor:
        self._refuse()

    def part(self, start: int, stop: int) -> Samples:
        """Likewise not here; a part of nothing is shown to who may not see them."""
        return AbsentSamples(self.__dict__["whose"], stop - start, self.prepare)

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
        """How many there are."""
        return self.facts.classes

    @cached_property
    def clients(self) -> dict[int, ClientData]:
        """Everybody, by number."""
        return {c.id: self._client(c.id, (c.train, c.val, c.test), c.new, c.name) for c in self.facts.clients}

    def common_test(self, client: ClientData) -> Samples | None:
        """Not here."""
        return None

    def shared_data(self) -> Samples:
        """Not here, which only its use shows."""
        return AbsentSamples("the federation's shared set", 1, self.prepare)

    def pooled(self) -> ClientData:
        """The one client of the centralized yardstick."""
        return self._client(-1, (1, 0, 0), False, "")

    def _client(self, id: int, sizes: tuple[int, int, int], new: bool, name: str) -> ClientData:
        train, val, test = (AbsentSamples(f"client {name or id}", size, self.prepare) for size in sizes)
        return ClientData(id, train, val, test, None, new, name)
