"""What a server may know of its federation: everything but samples of clients."""

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from motet.data.federation import Federation, Samples, by_domain
from motet.data.input import Input


@dataclass(frozen=True)
class ClientFacts:
    """One client from outside: how many samples it has in each split, not which."""

    id: int
    train: int
    val: int
    test: int
    new: bool = False
    domain: int | None = None
    name: str = ""
    malicious: bool = False  # known to who simulates, for scores; no method is told


@dataclass(frozen=True, eq=False)
class FederationFacts:
    """A federation without its clients' data: made from the data here, or from what real sites tell when they join."""

    name: str
    clients: tuple[ClientFacts, ...]
    classes: int
    input: Input
    content_hash: str
    test: Samples | None
    """The common test set; None where there is none."""
    test_domains: Tensor | None = None
    test_is_clients: bool = False
    """Whether the common test set is all clients' test data, one client after the other."""
    class_names: tuple[str, ...] = ()
    domain_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    target: str = ""
    """The name of the number that is predicted; empty for classes."""

    @classmethod
    def of(cls, federation: Federation) -> "FederationFacts":
        """Return the facts of a federation whose data are all in this process."""
        clients = tuple(
            ClientFacts(c.id, len(c.train), len(c.val), len(c.test), c.new, c.domain, c.name, c.malicious)
            for c in federation.clients
        )
        return cls(
            federation.name,
            clients,
            federation.classes,
            federation.input,
            federation.content_hash,
            federation.test,
            federation.test_domains,
            federation.test_is_clients,
            federation.class_names,
            federation.domain_names,
            federation.notes,
            federation.target,
        )

    @cached_property
    def by_id(self) -> dict[int, ClientFacts]:
        """Return the facts of each client by its number."""
        return {client.id: client for client in self.clients}

    @property
    def domains(self) -> set[int]:
        """Return the numbers of the domains that clients belong to."""
        return {client.domain for client in self.clients if client.domain is not None}

    def common_test(self, domain: int | None) -> Samples | None:
        """The common test set, restricted to a domain where its clients have one."""
        return self.test if domain is None or self.test_domains is None else self._domain_tests[domain]

    @cached_property
    def _domain_tests(self) -> dict[int, Samples]:
        assert self.test is not None and self.test_domains is not None
        found = by_domain(self.test, self.test_domains)
        return {d: found[d] for d in self.domains}

    @property
    def training_ids(self) -> list[int]:
        """Return the ids of the clients that may take part in rounds."""
        return [client.id for client in self.clients if not client.new]

    @cached_property
    def malicious_ids(self) -> frozenset[int]:
        """Return the ids of the training clients that are attackers."""
        return frozenset(client.id for client in self.clients if client.malicious)

    @property
    def new_ids(self) -> list[int]:
        """Return the ids of the clients that training never sees."""
        return [client.id for client in self.clients if client.new]
