"""The files under a folder or in a .zip, listed before any is read: no hidden ones, and none that lies elsewhere."""

import os
import stat
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from motet.data.archives import damage, open_zip_member
from motet.errors import MotetError, shown
from motet.files import open_own
from motet.inspect_files import regular_size, shown_path

DEEPEST = 12  # folders in folders
MOST_BYTES = 500_000_000  # of one file
_NOT_DATA = {"__MACOSX", "Thumbs.db", "desktop.ini"}
"""What systems put into folders by themselves, besides hidden files."""


@dataclass(frozen=True)
class Listed:
    """One file: its path as names from the outside in, and what tells whether it changed."""

    parts: tuple[str, ...]
    bytes: int
    stamp: int

    @property
    def name(self) -> str:
        """As text, with /."""
        return "/".join(self.parts)


class Box(Protocol):
    """Whatever holds files."""

    path: Path
    files: list[Listed]
    """In the order of their names."""

    def read(self, file: Listed) -> bytes:
        """Its content; `OSError` or `ValueError` for one that cannot be read."""


@contextmanager
def open_box(path: Path) -> Iterator[Box]:
    """The files of a folder or a .zip, for as long as they are needed."""
    if path.is_dir():
        yield _Folder(path)
        return
    with damage(path):
        regular_size(path, shown_path(path))
        archive = zipfile.ZipFile(path)
    with archive:
        yield _Zip(path, archive)


class _Folder:
    """Files on the disk. A link inside it is refused: it may lead to anything, or in a circle."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with damage(path):
            self.files = sorted(_walk(path, ()), key=lambda file: file.parts)

    def read(self, file: Listed) -> bytes:
        with os.fdopen(open_own(self.path.joinpath(*file.parts), os.O_RDONLY), "rb") as opened:
            data = opened.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise ValueError(f"more than {MOST_BYTES:,} bytes")
        return data


class _Zip:
    """Files of an archive, which are never unpacked to the disk."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self.path = path
        self._archive = archive
        self._infos: dict[tuple[str, ...], zipfile.ZipInfo] = {}
        for info in archive.infolist():
            parts = tuple(info.filename.split("/"))
            if info.is_dir() or _hidden(parts):
                continue
            if ".." in parts or "" in parts or len(parts) > DEEPEST:
                raise MotetError(f"{shown_path(path)}: holds the name {shown(info.filename)}; accepted: class/file")
            if parts in self._infos:
                raise MotetError(f"{shown_path(path)}: holds {shown(info.filename)} twice; accepted: each file once")
            self._infos[parts] = info
        self.files = sorted(
            (Listed(parts, info.file_size, info.CRC) for parts, info in self._infos.items()),
            key=lambda file: file.parts,
        )

    def read(self, file: Listed) -> bytes:
        try:
            return open_zip_member(self._archive, self._infos[file.parts], MOST_BYTES)
        except (zipfile.BadZipFile, EOFError, RuntimeError, NotImplementedError) as error:
            raise ValueError(str(error)) from error
        except Exception as error:  # whatever the ways of compression have
            raise ValueError(f"{type(error).__name__}: {error}") from error


def _walk(folder: Path, above: tuple[str, ...]) -> Iterator[Listed]:
    if len(above) > DEEPEST:
        raise MotetError(f"{shown_path(folder)}: lies more than {DEEPEST} folders deep; accepted: fewer")
    with os.scandir(folder) as entries:
        for entry in entries:
            parts = (*above, entry.name)
            if _hidden((entry.name,)):
                continue
            found = entry.stat(follow_symlinks=False)
            if stat.S_ISLNK(found.st_mode):
                raise MotetError(
                    f"{shown_path(entry.path)} is a link, which may lead out of the folder; accepted: files and "
                    f"folders of its own"
                )
            if stat.S_ISDIR(found.st_mode):
                yield from _walk(Path(entry.path), parts)
            elif stat.S_ISREG(found.st_mode):
                yield Listed(parts, found.st_size, found.st_mtime_ns)


def _hidden(parts: tuple[str, ...]) -> bool:
    return any((part.startswith(".") and part != "..") or part in _NOT_DATA for part in parts)
