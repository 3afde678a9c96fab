"""clients.json of a record: names and data sizes of the clients, and names of the classes."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

from pydantic import Field

from motet.data import FederationFacts
from motet.io.files import write_atomic
from motet.io.json_models import Count, FileModel, Text, to_json
from motet.runs.record import Record

FILE = "clients.json"

Counts = Mapping[int, tuple[int, ...]]


class ClientInfo(FileModel):
    """One client: its id, which all commands use, its name, and how many samples it has of each kind."""

    id: Count
    name: Text
    new: bool
    train: Count
    val: Count | None = None
    test: Count | None = None
    domain: Text | None = None
    counts: tuple[Count, ...] = ()
    """Training samples of each class, in a simulation only: a real site does not send them."""


class ClientsInfo(FileModel):
    """All clients, the names of the classes, and the size of the common test set, if there is one."""

    clients: Annotated[tuple[ClientInfo, ...], Field(min_length=1)]
    classes: tuple[Text, ...] = ()
    common_test: Count | None = None

    @property
    def by_id(self) -> dict[int, ClientInfo]:
        """The clients by id."""
        return {client.id: client for client in self.clients}

    @property
    def own_test(self) -> int:
        """The number of test samples that the training clients have of their own."""
        return sum(client.test or 0 for client in self.clients if not client.new)


def clients_info_of(facts: FederationFacts, counts: Counts = MappingProxyType({})) -> ClientsInfo:
    """Return the content of clients.json; `counts` has class counts of simulated clients."""
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
    """Write clients.json into a run folder, one line per client; the bytes depend on the arguments alone."""
    clients_info = clients_info_of(facts, counts)
    clients = ",\n    ".join(to_json(client.model_dump()) for client in clients_info.clients)
    classes, common_test = to_json(clients_info.classes), to_json(clients_info.common_test)
    text = f'{{\n  "classes": {classes},\n  "clients": [\n    {clients}\n  ],\n  "common_test": {common_test}\n}}\n'
    write_atomic(folder / FILE, text.encode())


def read_clients_info(record: Record) -> ClientsInfo:
    """Return the content of a run's clients.json; raise `MotetError` if it is missing or damaged."""
    return ClientsInfo.from_json(record.read_bytes(FILE), f"{record.folder / FILE}")


def _domain(facts: FederationFacts, domain: int | None) -> str | None:
    if domain is None:
        return None
    return facts.domain_names[domain] if facts.domain_names else str(domain)
