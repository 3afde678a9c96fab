"""Files that never change, each named with its SHA-256: what a checkpoint lists, and how damage is noticed."""

import hashlib
from pathlib import Path
from typing import Any

from motet.files import replace_file

Entry = dict[str, Any]  # file, sha256, bytes
Entries = dict[int, Entry]  # of clients, by their numbers


class Damaged(Exception):
    """Something saved that cannot be used; the text names the file."""


def entry_of(name: str, data: bytes) -> Entry:
    """What a list says of a file."""
    return {"file": name, "sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}


def intact(entry: Entry, data: bytes) -> bytes:
    """The bytes, if they are those that were written."""
    if hashlib.sha256(data).hexdigest() != entry["sha256"]:
        raise Damaged(f"{entry['file']} has a wrong SHA-256")
    return data


def write_entry(folder: Path, name: str, data: bytes) -> Entry:
    """A new file; its name reaches the disk with the next `sync_folder`."""
    replace_file(folder / name, data)
    return entry_of(name, data)


def read_entry(folder: Path, entry: Entry) -> bytes:
    """The bytes of a file, if they are those that were written."""
    try:
        data = folder.joinpath(entry["file"]).read_bytes()
    except OSError as error:
        raise Damaged(f"{entry['file']}: {error.strerror}") from error
    return intact(entry, data)
