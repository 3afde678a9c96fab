"""The folder of a whole export: export.json lists the models beside it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field

from motet.errors import MotetError
from motet.export.description import Which
from motet.export.folder import is_model
from motet.io.files import read_own, write_atomic
from motet.io.json_models import Count, FileModel, Text

INDEX = "export.json"
FORMAT: Final = 1
MOST_BYTES = 2**26


class ListedModel(FileModel):
    """The entry of one model in export.json."""

    folder: Annotated[str, Field(pattern=r"^(generic|client-[0-9]{1,12}(-[\w-]{1,40})?)$")]  # letters of any language
    model: Which
    client: Text | None
    number: Count | None


class ExportIndex(FileModel):
    """export.json: the list of all models of an export."""

    format: Literal[1]
    models: Annotated[tuple[ListedModel, ...], Field(min_length=1)]
    client_column: Text | None = None
    """The column of the run's data that names clients."""


def write_index(out: Path, models: Sequence[ListedModel], client_column: str | None) -> None:
    """Write export.json, last of all: with it the export is complete."""
    index = ExportIndex(format=FORMAT, models=tuple(models), client_column=client_column)
    write_atomic(out / INDEX, index.to_json(indent=1))


def require_index(folder: Path) -> None:
    """Raise a `MotetError` unless the folder is one of a whole export."""
    if is_model(folder):
        raise MotetError(f"{folder} is one model; accepted: the folder of a whole export")
    if not (folder / INDEX).is_file():
        raise MotetError(f"{folder} holds no exported model; accepted: a folder that `motet export` has finished")


def model_folder(folder: Path, client: int | str | None = None) -> Path:
    """Return the folder of a model: the folder itself, or one that its index lists; without a client the generic
    model."""
    if is_model(folder):
        return _itself(folder, client)
    require_index(folder)
    listed = read_index(folder).models
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


def read_index(folder: Path) -> ExportIndex:
    """Return the list of all models of an export."""
    path = folder / INDEX
    try:
        data = read_own(path, MOST_BYTES)
    except OSError as error:
        raise MotetError(f"cannot read {path}: {error.strerror}") from error
    return ExportIndex.from_json(data, str(path))


def _itself(folder: Path, client: int | str | None) -> Path:
    if client is not None:
        raise MotetError(f"{folder} is one model; accepted: no client, or the folder of a whole export")
    return folder


def _accepted(listed: Sequence[ListedModel]) -> str:
    names = [each.client for each in listed if each.client is not None]
    some = ", ".join(repr(name[:40]) for name in names[:3])
    return f"accepted: such as {some}" if names else "accepted: no client, for the generic model"
