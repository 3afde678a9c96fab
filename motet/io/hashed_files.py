"""Files that never change, each named with its SHA-256: what a checkpoint lists, and how damage is noticed."""

import hashlib
from pathlib import Path
from typing import Annotated

from pydantic import Field

from motet.io.files import MOST_BYTES, read_own, replace_file
from motet.io.json_models import Count, FileModel, Sha256


class FileEntry(FileModel):
    """What a list says of a file: its name inside a folder, and what its bytes must be."""

    file: Annotated[str, Field(pattern=r"^[^/\\\x00-\x1f]{1,200}$")]
    sha256: Sha256
    bytes: Count


ClientFiles = dict[int, FileEntry]  # of clients, by their numbers


class Damaged(Exception):
    """Something saved that cannot be used; the text names the file."""


def entry_of(name: str, data: bytes) -> FileEntry:
    """Return what a list says of a file with this name and these bytes."""
    return FileEntry(file=name, sha256=hashlib.sha256(data).hexdigest(), bytes=len(data))


def intact(entry: FileEntry, data: bytes) -> bytes:
    """Return the bytes if they are those that were written, or raise `Damaged`."""
    if hashlib.sha256(data).hexdigest() != entry.sha256:
        raise Damaged(f"{entry.file} has a wrong SHA-256")
    return data


def write_entry(folder: Path, name: str, data: bytes) -> FileEntry:
    """Write a new file; its name reaches the disk with the next `sync_folder`."""
    replace_file(folder / name, data)
    return entry_of(name, data)


def read_entry(folder: Path, entry: FileEntry) -> bytes:
    """Return the bytes of a file of the folder if they are those that were written, or raise `Damaged`."""
    try:
        data = read_own(folder / entry.file, min(entry.bytes, MOST_BYTES))
    except OSError as error:
        raise Damaged(f"{entry.file}: {error.strerror}") from error
    return intact(entry, data)
