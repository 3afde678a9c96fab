"""Files that survive a kill and a power cut, and errors of the disk in one sentence."""

import errno
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from motet.errors import MotetError

_REMEDIES = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space",
    errno.EFBIG: "raise the limit on the size of a file",
    errno.EROFS: "choose a folder on a disk that can be written",
    errno.EACCES: "choose a folder that you may write to",
    errno.EPERM: "choose a folder that you may write to",
    errno.ENOTDIR: "choose a folder, not a file",
    errno.ENAMETOOLONG: "choose a shorter name",
}


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the disk refuses into one sentence that names the file."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        remedy = _REMEDIES.get(error.errno or 0)
        raise MotetError(f"cannot write {path}: {reason}" + (f"; {remedy}" if remedy else "")) from error


def make_folder(path: Path) -> None:
    """Create a folder and those above it, if they are not there."""
    if not path.is_dir():
        with writing(path):
            path.mkdir(parents=True, exist_ok=True)
        sync_folder(path.parent)


def write_atomic(path: Path, data: bytes) -> None:
    """The whole file or nothing, on disk when this returns."""
    replace_file(path, data)
    sync_folder(path.parent)


def replace_file(path: Path, data: bytes) -> None:
    """As `write_atomic`, but the name reaches the disk only with the next `sync_folder`."""
    temporary = path.with_name(f".{path.name}.tmp")
    with writing(path):
        try:
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise


def sync_folder(folder: Path) -> None:
    """Put the names in a folder on disk."""
    with writing(folder):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def remove_temporaries(folder: Path) -> None:
    """Remove what a killed process left half written."""
    for path in folder.glob(".*.tmp"):
        with suppress(OSError):
            path.unlink()


def append_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Add one JSON object per line."""
    text = "".join(to_json(row) + "\n" for row in rows)
    with writing(path), path.open("ab") as file:
        file.write(text.encode())


def synced_length(path: Path) -> int:
    """The length of a file in bytes, all of them on disk; 0 for a file that is not there."""
    if not path.exists():
        return 0
    with writing(path), path.open("ab") as file:
        os.fsync(file.fileno())
        return file.tell()


def truncate(path: Path, length: int) -> None:
    """Cut a file to the length it once had; a file that is shorter has lost data."""
    found = path.stat().st_size if path.exists() else 0
    if found < length:
        raise MotetError(f"{path} has {found} bytes; accepted: at least the {length} that its checkpoint counts on")
    with writing(path), path.open("ab") as file:
        file.truncate(length)
        os.fsync(file.fileno())


def to_json(value: Any, indent: int | None = None) -> str:
    """JSON with sorted keys and exact floats; what is not a finite number becomes null."""
    return json.dumps(_plain(value), sort_keys=True, allow_nan=False, ensure_ascii=False, indent=indent)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):  # NumPy and torch
        return _plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value
