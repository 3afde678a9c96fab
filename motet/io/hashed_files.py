"""Files that never change, each named with its SHA-256: what a checkpoint lists, and how damage is noticed."""

import hashlib
import re
from pathlib import Path
from typing import Any

from motet.errors import MotetError
from motet.io.files import MOST_BYTES, read_own, replace_file
from motet.messages.message import State, decode

FileEntry = dict[str, Any]  # file, sha256, bytes
ClientFiles = dict[int, FileEntry]  # of clients, by their numbers

_SHA256 = re.compile(r"[0-9a-f]{64}")


class Damaged(Exception):
    """Something saved that cannot be used; the text names the file."""


def entry_of(name: str, data: bytes) -> FileEntry:
    """What a list says of a file."""
    return {"file": name, "sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}


def intact(entry: FileEntry, data: bytes) -> bytes:
    """The bytes, if they are those that were written."""
    if hashlib.sha256(data).hexdigest() != entry["sha256"]:
        raise Damaged(f"{entry['file']} has a wrong SHA-256")
    return data


def write_entry(folder: Path, name: str, data: bytes) -> FileEntry:
    """A new file; its name reaches the disk with the next `sync_folder`."""
    replace_file(folder / name, data)
    return entry_of(name, data)


def read_entry(folder: Path, entry: FileEntry) -> bytes:
    """The bytes of a file of the folder, if they are those that were written."""
    name = entry["file"]
    if Path(name).name != name:
        raise Damaged(f"{name[:100]!r} is no name of a file in the folder")
    try:
        data = read_own(folder / name, min(entry["bytes"], MOST_BYTES))
    except OSError as error:
        raise Damaged(f"{name}: {error.strerror}") from error
    return intact(entry, data)


def decoded(entry: FileEntry, data: bytes) -> State:
    """The state that these bytes are; also bytes with the right SHA-256 may be none."""
    try:
        return decode(data)
    except MotetError as error:
        raise Damaged(f"{entry['file']}: {error}") from error


def checked(entry: object, names: re.Pattern[str], which: str) -> FileEntry:
    """An entry as Motet writes one, with a name of that pattern; `which` says in errors whose it is."""
    if not isinstance(entry, dict) or entry.keys() != {"file", "sha256", "bytes"}:
        raise Damaged(f"the entry of {which} is none")
    name, digest, size = entry["file"], entry["sha256"], entry["bytes"]
    if not isinstance(name, str) or not names.fullmatch(name):
        raise Damaged(f"the entry of {which} names the file {str(name)[:100]!r}")
    if not isinstance(digest, str) or not _SHA256.fullmatch(digest):
        raise Damaged(f"the entry of {which} has no SHA-256")
    if type(size) is not int or size < 0:
        raise Damaged(f"the entry of {which} has no size")
    return entry
