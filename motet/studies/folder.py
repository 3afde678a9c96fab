"""The folder of a study: the same command continues it, and another command is refused.

`asked.json` holds what was asked. Every file of a study is written and read through one strict model.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, Field, JsonValue

from motet.errors import MotetError
from motet.io.files import make_folder, read_own, refuse_links, write_atomic
from motet.io.json_models import LARGEST_NUMBER, FileModel
from motet.io.locks import FolderLock

M = TypeVar("M", bound=FileModel)

ASKED = "asked.json"
HANDED_OVER = "data-"
"""How the name of a file begins that holds data which a Python user had in memory."""
MOST_BYTES = 2**25

# -------- Types of fields in a study's files


def _inside(run: str) -> str:
    path = PurePosixPath(run)
    if path.is_absolute() or ".." in path.parts or "\0" in run:
        raise ValueError("a run lies within the folder")
    return run


Name = Annotated[str, Field(max_length=4096)]
Sentence = Annotated[str, Field(max_length=2**16)]
Number = Annotated[float, Field(ge=-LARGEST_NUMBER, le=LARGEST_NUMBER)]
Interval = tuple[Number, Number]
Count = Annotated[int, Field(ge=0)]
Options = dict[Name, str | int | float | bool]
RunFolder = Annotated[Name, AfterValidator(_inside)]
"""The folder of a run, relative to that of the study."""


class AskedFile(FileModel):
    """asked.json: which study the folder belongs to, and everything that decides its result."""

    study: Name
    format: int
    request: dict[str, JsonValue]


# -------- The folder


@contextmanager
def opened(folder: Path, asked: AskedFile) -> Iterator[None]:
    """Hold the lock of the study's folder inside the block; refuse a folder that holds something else."""
    if folder.exists() and not folder.is_dir():
        raise MotetError(f"output folder {folder} is a file; choose another --out")
    make_folder(folder)
    refuse_links(folder)
    lock = FolderLock(folder)
    try:
        _same_or_new(folder, asked)
        yield
    finally:
        lock.release()


def write_file(path: Path, file: FileModel) -> None:
    """Write a file of the study, whole or not at all."""
    write_atomic(path, file.to_json(indent=2))


def read_file(path: Path, kind: type[M]) -> M:
    """Return what a file of the study holds, or raise one sentence about what is wrong with it."""
    try:
        data = read_own(path, MOST_BYTES)
    except OSError as error:
        raise MotetError(f"cannot read {path}: {error.strerror}") from error
    return kind.from_json(data, str(path))


def _same_or_new(folder: Path, asked: AskedFile) -> None:
    path = folder / ASKED
    if not path.exists():
        if any(
            p.name != "lock" and p.suffix != ".tmp" and not p.name.startswith(HANDED_OVER) for p in folder.iterdir()
        ):
            raise MotetError(f"output folder {folder} is not empty; choose another --out")
        write_file(path, asked)
        return
    there, here = read_file(path, AskedFile), AskedFile.from_json(asked.to_json(), ASKED)  # as JSON keeps it
    for name in ("study", "format", "request"):
        if other := _difference(getattr(there, name), getattr(here, name), "" if name == "request" else name):
            raise MotetError(f"{folder} holds a study of other settings ({other}); choose another --out, or remove it")


def _difference(there: Any, here: Any, name: str) -> str | None:
    """Return the first choice that differs, such as "trials: 5 there, 10 here"; None where all are the same."""
    if isinstance(there, dict) and isinstance(here, dict):
        for key in dict.fromkeys((*there, *here)):
            found = _difference(there.get(key), here.get(key), f"{name}.{key}" if name else key)
            if found:
                return found
        return None
    return None if there == here else f"{name}: {there} there, {here} here"
