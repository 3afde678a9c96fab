"""clients.json of a record: who the clients are, by name, and how much data each has; what the classes are called."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from motet.data import FederationFacts
from motet.io.files import write_atomic
from motet.io.json_models import Count, FileModel, Text, to_json
from motet.runs.record import Record

FILE = "clients.json"

Counts = Mapping[int, tuple[int, ...]]


class ClientInfo(FileModel):
    """One client: its number, by which all commands know it, its name, and its samples of each kind."""

    id: Count
    name: Text
    new: bool
    train: Count
    val: Count | None = None
    test: Count | None = None
    domain: Text | None = None
    counts: tuple[Count, ...] = ()
    """Its training samples of each class: where all data are in one place, never what a site told."""


class ClientsInfo(FileModel):
    """All clients, the names of classes, and the size of the common test set as far as it is known."""

    clients: tuple[ClientInfo, ...]
    classes: tuple[Text, ...] = ()
    common_test: Count | None = None

    @property
    def by_id(self) -> dict[int, ClientInfo]:
        """Each client by its number."""
        return {client.id: client for client in self.clients}

    @property
    def own_test(self) -> int:
        """How many test samples the training clients have of their own."""
        return sum(client.test or 0 for client in self.clients if not client.new)


def clients_info_of(facts: FederationFacts, counts: Counts = MappingProxyType({})) -> ClientsInfo:
    """Return what the data say of the clients; with class counts of those that are simulated."""
    clients = tuple(
        ClientInfo(
            id=c.id,
            name=c.name or str(c.id),
            new=c.new,
            train=c.train,
            val=c.val,
            test=c.test,
            domain=_domain(facts, c.domain),
            counts=counts.get(c.id, ()),
        )
        for c in facts.clients
    )
    common_test = None if facts.test is None else len(facts.test)
    return ClientsInfo(clients=clients, classes=tuple(facts.class_names), common_test=common_test)


def write_clients_info(folder: Path, facts: FederationFacts, counts: Counts = MappingProxyType({})) -> None:
    """Write clients.json into a run folder, a line per client; the same bytes whenever it is written."""
    clients_info = clients_info_of(facts, counts)
    clients = ",\n    ".join(to_json(client.model_dump()) for client in clients_info.clients)
    classes, common_test = to_json(clients_info.classes), to_json(clients_info.common_test)
    text = f'{{\n  "classes": {classes},\n  "clients": [\n    {clients}\n  ],\n  "common_test": {common_test}\n}}\n'
    write_atomic(folder / FILE, text.encode())


def read_clients_info(record: Record) -> ClientsInfo:
    """Return the clients of a run."""
    return ClientsInfo.from_json(record.read_bytes(FILE), f"{record.folder / FILE}")


def _domain(facts: FederationFacts, domain: int | None) -> str | None:
    if domain is None:
        return None
    return facts.domain_names[domain] if facts.domain_names else str(domain)
