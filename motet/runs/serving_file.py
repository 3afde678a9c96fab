"""What a run folder keeps so that its models can be served without its data: the facts, and how samples are prepared.

    serving.json          sizes and names of clients, names of classes, kind and shape of the samples
    serving.safetensors   the constants of the normalization, if there are any

No sample is in it, and no class counts: they never leave a client.
"""

from collections.abc import Mapping
from typing import Any

from motet.data import ClientFacts, FederationFacts, Prepare
from motet.data.prepare import restored
from motet.errors import MotetError
from motet.io import json_models
from motet.io.files import read_own, write_atomic
from motet.io.json_models import to_json
from motet.messages.message import decode, encode
from motet.runs.record import Record

FORMAT = 1
FACTS, CONSTANTS = "serving.json", "serving.safetensors"
MOST_BYTES = 2**28


def write_serving(record: Record, facts: FederationFacts) -> None:
    """At the end of a run; the preparation is the same for everybody, so the common test set has it."""
    if facts.test is None:
        return
    prepare, constants = facts.test.prepare.saved()
    if constants:
        write_atomic(record.folder / CONSTANTS, encode(constants))
    clients = [[c.id, c.train, c.val, c.test, c.new, c.domain, c.name] for c in facts.clients]
    known: dict[str, Any] = {
        "format": FORMAT,
        "name": facts.name,
        "classes": facts.classes,
        "class_names": facts.class_names,
        "content_hash": facts.content_hash,
        "prepare": prepare,
        "stored": str(facts.test.x.dtype).removeprefix("torch."),
        "clients": clients,
    }
    write_atomic(record.folder / FACTS, (to_json(known) + "\n").encode())


def read_serving(record: Record) -> tuple[FederationFacts, Prepare] | None:
    """What was kept; None in a folder of an older Motet, which is served with its data."""
    path = record.folder / FACTS
    try:
        known = json_models.loads(read_own(path, MOST_BYTES))
        constants = decode(read_own(record.folder / CONSTANTS)) if _normalizes(known) else {}
        return _facts(known, restored(known["prepare"], constants))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise MotetError(f"cannot read {error.filename or path}: {error.strerror}") from error
    except (ValueError, LookupError, TypeError, MotetError) as error:
        raise MotetError(f"{path} is damaged; accepted: as `motet run` wrote it") from error


def stored_type(record: Record) -> str:
    """The type of the samples as they are stored; nothing in a folder of an older Motet."""
    try:
        known = json_models.loads(read_own(record.folder / FACTS, MOST_BYTES))
    except (OSError, ValueError):
        return ""
    found = known.get("stored", "") if isinstance(known, dict) else ""
    return found if isinstance(found, str) else ""


def _normalizes(known: Any) -> bool:
    return isinstance(known, dict) and bool(known["prepare"]["constants"])


def _facts(known: Mapping[str, Any], prepare: Prepare) -> tuple[FederationFacts, Prepare]:
    """`ValueError` for what no run writes."""
    if known["format"] != FORMAT:
        raise ValueError("another format")
    classes, names = known["classes"], known["class_names"]
    if type(classes) is not int or not 0 < classes < 2**20 or len(names) != classes:
        raise ValueError("classes")
    if not all(isinstance(text, str) for text in (known["name"], known["content_hash"], *names)):
        raise ValueError("names")
    clients = tuple(_client(i, row) for i, row in enumerate(known["clients"]))
    if not clients:
        raise ValueError("clients")
    facts = FederationFacts(
        known["name"], clients, classes, prepare.input, known["content_hash"], None, class_names=tuple(names)
    )
    return facts, prepare


def _client(place: int, row: Any) -> ClientFacts:
    id, train, val, test, new, domain, name = row
    sizes = all(type(size) is int and size >= 0 for size in (train, val, test)) and train > 0
    if id != place or not sizes or type(new) is not bool or not isinstance(name, str):
        raise ValueError("clients")
    if domain is not None and type(domain) is not int:
        raise ValueError("clients")
    return ClientFacts(place, train, val, test, new, domain, name)
