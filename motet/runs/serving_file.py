"""The files with which the models of a run are served without its data.

    serving.json          sizes and names of clients, names of classes, kind and shape of the samples
    serving.safetensors   the constants of the normalization, if there are any

They hold no samples and no class counts, which never leave a client.
"""

import os
from typing import Annotated, Final, Literal, NamedTuple

from pydantic import Field, JsonValue, model_validator

from motet.data import ClientFacts, FederationFacts, Prepare
from motet.data.prepare import restored
from motet.errors import MotetError
from motet.io.files import read_own, write_atomic
from motet.io.json_models import Count, FileModel, Text, plain
from motet.messages.message import decode, encode
from motet.runs.record import Record

FORMAT: Final = 1
FACTS, CONSTANTS = "serving.json", "serving.safetensors"
MOST_CLASSES = 2**20


class ServedClient(NamedTuple):
    """One client of serving.json, written as a list without field names because there may be very many."""

    id: Count
    train: Annotated[int, Field(gt=0)]
    val: Count
    test: Count
    new: bool
    domain: Count | None
    name: Text


class ServingFile(FileModel):
    """The content of serving.json."""

    format: Literal[1]
    name: Text
    classes: Annotated[int, Field(gt=0, lt=MOST_CLASSES)]
    class_names: tuple[Text, ...]
    content_hash: Text
    prepare: dict[str, JsonValue]
    """What `Prepare.saved` returned; `restored` reads it."""
    stored: Annotated[str, Field(pattern=r"^[a-z0-9_]{1,20}$")]
    """The torch type of the samples before they are prepared."""
    clients: Annotated[tuple[ServedClient, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _is_whole(self) -> "ServingFile":
        if len(self.class_names) != self.classes:
            raise ValueError("a name for each class")
        if any(client.id != place for place, client in enumerate(self.clients)):
            raise ValueError("clients in the order of their numbers")
        return self

    def facts(self, prepare: Prepare) -> FederationFacts:
        """Return the facts of the federation, without a test set."""
        clients = tuple(ClientFacts(*client) for client in self.clients)
        return FederationFacts(
            self.name,
            clients,
            self.classes,
            prepare.input,
            self.content_hash,
            None,
            class_names=self.class_names,
            target="" if prepare.target is None else self.class_names[0],
        )


def write_serving(record: Record, facts: FederationFacts, by: Prepare | None) -> None:
    """Write both files at the end of a run; nothing if the server does not know the preparation of samples, `by`."""
    if by is None:
        return
    prepare, constants = by.saved()
    if constants:
        write_atomic(record.folder / CONSTANTS, encode(constants))
    clients = [ServedClient(c.id, c.train, c.val, c.test, c.new, c.domain, c.name) for c in facts.clients]
    kept = ServingFile.model_validate(
        {
            "format": FORMAT,
            "name": facts.name,
            "classes": facts.classes,
            "class_names": tuple(facts.class_names),
            "content_hash": facts.content_hash,
            "prepare": plain(prepare),
            "stored": "float32" if facts.test is None else str(facts.test.x.dtype).removeprefix("torch."),
            "clients": tuple(clients),
        }
    )
    write_atomic(record.folder / FACTS, kept.to_json())


def read_serving(record: Record) -> tuple[FederationFacts, Prepare] | None:
    """Return facts and preparation from the files, or None if the run has no serving.json; raise if damaged."""
    kept, path = _read(record), record.folder / FACTS
    if kept is None:
        return None
    try:
        constants = decode(read_own(record.folder / CONSTANTS)) if kept.prepare.get("constants") else {}
        prepare = restored(kept.prepare, constants)
    except OSError as error:
        raise MotetError(f"cannot read {record.folder / CONSTANTS}: {error.strerror}") from error
    except (ValueError, LookupError, TypeError, MotetError) as error:
        raise MotetError(f"{path} is damaged: prepare is no preparation; accepted: as `motet run` wrote it") from error
    return kept.facts(prepare), prepare


def stored_type(record: Record) -> str:
    """Return the torch type of the samples before they are prepared; empty if the run has no serving.json."""
    kept = _read(record)
    return "" if kept is None else kept.stored


def _read(record: Record) -> ServingFile | None:
    path = record.folder / FACTS
    return ServingFile.from_json(record.read_bytes(FACTS), str(path)) if os.path.lexists(path) else None
