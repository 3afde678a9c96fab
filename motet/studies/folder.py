"""The folder of a study: what was asked stands in it, so that the same command goes on and another one is refused."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from motet.errors import MotetError
from motet.io import json_models
from motet.io.files import make_folder, read_own, refuse_links, write_atomic
from motet.io.json_models import fitted, to_json
from motet.io.locks import FolderLock

T = TypeVar("T")

ASKED = "asked.json"
MOST_BYTES = 2**24


@contextmanager
def opened(folder: Path, asked: Mapping[str, Any]) -> Iterator[None]:
    """Alone in a folder whose study is the one that is asked for; a new one is begun in an empty folder."""
    if folder.exists() and not folder.is_dir():
        raise MotetError(f"output folder {folder} is a file; choose another --out")
    make_folder(folder)
    refuse_links(folder)
    lock = FolderLock(folder)
    try:
        _same_or_new(folder, json_models.loads(to_json(asked).encode()))
        yield
    finally:
        lock.release()


def write_json(path: Path, value: Any) -> None:
    """Whole or not at all."""
    write_atomic(path, (to_json(value, indent=2) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    """An object of a study's folder."""
    try:
        value = json_models.loads(read_own(path, MOST_BYTES))
    except OSError as error:
        raise MotetError(f"cannot read {path}: {error.strerror}") from error
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise MotetError(f"{path} is damaged; accepted: a JSON object")
    return value


def read_as(path: Path, kind: type[T]) -> T:
    """The same as the model of that file."""
    return fitted(kind, read_json(path), str(path))


def _same_or_new(folder: Path, asked: dict[str, Any]) -> None:
    path = folder / ASKED
    if not path.exists():
        if any(p.name not in ("lock",) and p.suffix != ".tmp" for p in folder.iterdir()):
            raise MotetError(f"output folder {folder} is not empty; choose another --out")
        write_json(path, asked)
        return
    found = read_json(path)
    other = _difference(found, asked)
    if other:
        raise MotetError(f"{folder} holds a study of other settings ({other}); choose another --out, or remove it")


def _difference(there: Any, here: Any, name: str = "") -> str | None:
    """The first choice that differs, such as "trials: 5 there, 10 here"."""
    if isinstance(there, dict) and isinstance(here, dict):
        for key in dict.fromkeys((*there, *here)):
            found = _difference(there.get(key), here.get(key), f"{name}.{key}" if name else key)
            if found:
                return found
        return None
    return None if there == here else f"{name}: {there} there, {here} here"
