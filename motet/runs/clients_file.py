"""clients.json of a record: who the clients are, by name, and how much data each has; what the classes are called."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from motet.data import FederationFacts
from motet.errors import MotetError
from motet.io.files import write_atomic
from motet.io.json_models import to_json
from motet.runs.record import Record
from motet.runs.rows import Row

FILE = "clients.json"

Counts = Mapping[int, tuple[int, ...]]


@dataclass(frozen=True)
class ClientInfo:
    """One client: its number, by which all commands know it, its name, and its samples of each kind."""

    id: int
    name: str
    new: bool
    train: int
    val: int | None = None
    test: int | None = None
    domain: str | None = None
    counts: tuple[int, ...] = ()
    """Its training samples of each class: where all data are in one place, never what a site told."""


@dataclass(frozen=True)
class ClientsInfo:
    """All clients, the names of classes, and the size of the common test set as far as it is known."""

    clients: tuple[ClientInfo, ...]
    classes: tuple[str, ...] = ()
    common_test: int | None = None

    @property
    def by_id(self) -> dict[int, ClientInfo]:
        """Each client by its number."""
        return {client.id: client for client in self.clients}

    @property
    def own_test(self) -> int:
        """How many test samples the training clients have of their own."""
        return sum(client.test or 0 for client in self.clients if not client.new)


def clients_info_of(facts: FederationFacts, counts: Counts = MappingProxyType({})) -> ClientsInfo:
    """As the data say; class counts of the clients that are simulated."""
    clients = (
        ClientInfo(
            c.id, c.name or str(c.id), c.new, c.train, c.val, c.test, _domain(facts, c.domain), counts.get(c.id, ())
        )
        for c in facts.clients
    )
    return ClientsInfo(tuple(clients), facts.class_names, None if facts.test is None else len(facts.test))


def write_clients_info(folder: Path, facts: FederationFacts, counts: Counts = MappingProxyType({})) -> None:
    """Into a run folder, a line per client; the same bytes whenever it is written."""
    clients_info = clients_info_of(facts, counts)
    clients = ",\n    ".join(to_json(asdict(client)) for client in clients_info.clients)
    classes, common_test = to_json(clients_info.classes), to_json(clients_info.common_test)
    text = f'{{\n  "classes": {classes},\n  "clients": [\n    {clients}\n  ],\n  "common_test": {common_test}\n}}\n'
    write_atomic(folder / FILE, text.encode())


def read_clients_info(record: Record) -> ClientsInfo:
    """Of a run; of one from before there were names, what its scores tell."""
    if not (record.folder / FILE).is_file():
        return _from_scores(record.clients)
    try:
        return _people(record.clients_info)
    except (KeyError, TypeError, ValueError):
        raise MotetError(f"{record.folder / FILE} is damaged; accepted: what `motet run` wrote") from None


def _people(values: Mapping[str, Any]) -> ClientsInfo:
    clients = [ClientInfo(**{**row, "counts": tuple(row.get("counts", ()))}) for row in values["clients"]]
    for client in clients:
        if not isinstance(client.id, int) or not isinstance(client.train, int) or not isinstance(client.name, str):
            raise ValueError(client)
        if not all(isinstance(n, int | None) for n in (client.val, client.test)):
            raise ValueError(client)
        if not all(type(n) is int and n >= 0 for n in client.counts):
            raise ValueError(client)
    common = values["common_test"]
    return ClientsInfo(tuple(clients), tuple(map(str, values["classes"])), common if isinstance(common, int) else None)


def _from_scores(rows: list[Row]) -> ClientsInfo:
    found = {
        row["client"]: ClientInfo(
            row["client"], str(row["client"]), bool(row["new"]), row["n"], row.get("n.validation"), row.get("n.split")
        )
        for row in rows
        if "n" in row
    }
    return ClientsInfo(tuple(found[i] for i in sorted(found)))


def _domain(facts: FederationFacts, domain: int | None) -> str | None:
    if domain is None:
        return None
    return facts.domain_names[domain] if facts.domain_names else str(domain)
