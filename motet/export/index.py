"""The folder of a whole export: export.json names the models beside it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from motet.errors import MotetError
from motet.export.folder import is_model
from motet.io import json_models
from motet.io.files import read_own, write_atomic
from motet.io.json_models import to_json

INDEX = "export.json"
FORMAT = 1
MOST_BYTES = 2**26
_FOLDER = re.compile(r"generic|client-\d{1,12}(?:-[A-Za-z0-9_-]{1,40})?")


@dataclass(frozen=True)
class ListedModel:
    """One model of an export."""

    folder: str
    model: str
    client: str | None
    number: int | None


def write_index(out: Path, models: Sequence[ListedModel]) -> None:
    """Last of all: with it the export is whole."""
    words = {"format": FORMAT, "models": [vars(each) for each in models]}
    write_atomic(out / INDEX, (to_json(words, indent=1) + "\n").encode())


def model_folder(folder: Path, client: int | str | None = None) -> Path:
    """Where the asked model is: the folder itself, or one beside its index; without a client the generic model."""
    if is_model(folder):
        return _itself(folder, client)
    if not (folder / INDEX).is_file():
        raise MotetError(f"{folder} holds no exported model; accepted: a folder that `motet export` has finished")
    listed = read_index(folder)
    if client is None:
        found = [each for each in listed if each.client is None] or (listed if len(listed) == 1 else [])
        if not found:
            raise MotetError(f"{folder} holds {len(listed)} models of clients and no generic one; {_accepted(listed)}")
        return folder / found[0].folder
    found = [each for each in listed if each.client == client] if isinstance(client, str) else []
    found = found or [each for each in listed if each.number is not None and str(each.number) == str(client)]
    if len(found) != 1:
        much = f"{len(found)} models" if found else "no model"
        raise MotetError(f"{folder} holds {much} of a client {str(client)[:100]!r}; {_accepted(listed)}")
    return folder / found[0].folder


def read_index(folder: Path) -> list[ListedModel]:
    """Every model of an export."""
    path = folder / INDEX
    try:
        words = json_models.loads(read_own(path, MOST_BYTES))
        if words["format"] != FORMAT or not words["models"]:
            raise ValueError("format")
        return [_listed(each) for each in words["models"]]
    except OSError as error:
        raise MotetError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, LookupError, TypeError) as error:
        raise MotetError(f"{path} is damaged; accepted: as `motet export` wrote it") from error


def _listed(words: Any) -> ListedModel:
    folder, model, client, number = (words[key] for key in ("folder", "model", "client", "number"))
    if not isinstance(folder, str) or not _FOLDER.fullmatch(folder) or not isinstance(model, str):
        raise ValueError("folder")
    if not (client is None or isinstance(client, str)) or not (number is None or type(number) is int):
        raise ValueError("client")
    return ListedModel(folder, model, client, number)


def _itself(folder: Path, client: int | str | None) -> Path:
    if client is not None:
        raise MotetError(f"{folder} is one model; accepted: no client, or the folder of a whole export")
    return folder


def _accepted(listed: Sequence[ListedModel]) -> str:
    names = [each.client for each in listed if each.client is not None]
    some = ", ".join(repr(name[:40]) for name in names[:3])
    return f"accepted: such as {some}" if names else "accepted: no client, for the generic model"
