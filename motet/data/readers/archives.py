"""Files in a folder, a .zip or a .tar.gz, read from there without unpacking anything to the disk.

Files are listed before any is read: no hidden ones, and none that a link or `..` would put elsewhere.
"""

import gzip
import lzma
import os
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from motet.errors import MotetError, shown
from motet.io.files import open_own
from motet.io.memory_limits import free_memory
from motet.io.user_paths import read_small, regular_size, shown_path

MOST_UNPACKED = 2 * 10**9
"""Of one file, unpacked: beyond it an archive is a mistake or a trap."""
_ENCRYPTED = 0x1
_DAMAGE = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, struct.error),
    *(EOFError, OSError, RuntimeError, ValueError, IndexError, KeyError),
)


def read_members(container: Path, names: Sequence[str], most: int = MOST_UNPACKED) -> list[bytes]:
    """The content of these files of a folder or an archive, in that order; names are paths with / inside it.

    An archive may have one more folder around all of it.
    """
    if container.is_dir():
        return [read_file(container / name, most) for name in names]
    most = _room(most)
    with damage(container):
        regular_size(container, shown_path(container))
        if container.suffix == ".zip":
            return _from_zip(container, names, most)
        return _from_tar(container, names, most)


def read_file(path: Path, most: int = MOST_UNPACKED) -> bytes:
    """The content of one file, unpacked if its name ends in .gz."""
    most = _room(most)
    with damage(path):
        if path.suffix != ".gz":
            return read_small(path, most, shown_path(path))
        regular_size(path, shown_path(path))
        with gzip.open(path) as file:
            data = file.read(most + 1)
        if len(data) > most:
            raise ValueError(f"more than {most:,} bytes, unpacked")
        return data


@contextmanager
def damage(path: Path) -> Iterator[None]:
    """Turn whatever reading a file or an archive can raise into one sentence."""
    try:
        yield
    except MotetError:
        raise
    except _DAMAGE as error:
        raise MotetError(
            f"{shown_path(path)}: cannot be read ({reason(error)}); accepted: a complete {_form(path)}"
        ) from error


def reason(error: BaseException) -> str:
    """Return the first line of what an error says, shortened."""
    lines = str(getattr(error, "strerror", None) or error).strip().splitlines()
    return shown(lines[0])[1:-1] if lines else type(error).__name__


def open_zip_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, most: int) -> bytes:
    """One file of a .zip; `ValueError` for what is encrypted, too large or a link."""
    if info.flag_bits & _ENCRYPTED:
        raise ValueError(f"{info.filename} is encrypted")
    if stat.S_ISLNK(info.external_attr >> 16):
        raise ValueError(f"{info.filename} is a link")
    if info.file_size > most:
        raise ValueError(f"{info.filename} has {info.file_size:,} bytes, unpacked")
    with archive.open(info) as file:
        return file.read()  # no more than its size


def _room(most: int) -> int:
    """Return how many bytes a file may have unpacked: `most`, or half of the free memory if that is less."""
    return min(most, free_memory() // 2)


def _from_zip(path: Path, names: Sequence[str], most: int) -> list[bytes]:
    with zipfile.ZipFile(path) as archive:
        known = {info.filename: info for info in archive.infolist()}
        around = _around(list(known), names[0])
        return [open_zip_member(archive, known[_there(around + name, known)], most) for name in names]


def _from_tar(path: Path, names: Sequence[str], most: int) -> list[bytes]:
    """Read members of a compressed tar in one pass, for it has no way back."""
    found: dict[str, bytes] = {}
    with tarfile.open(path, "r|*") as archive:
        for member in archive:
            inner = str(PurePosixPath(member.name))
            wanted = next((name for name in names if inner == name or inner.endswith(f"/{name}")), None)
            if wanted is None or wanted in found:
                continue
            if not member.isreg() or member.size > most:
                raise ValueError(f"{member.name} is no file of at most {most:,} bytes")
            file = archive.extractfile(member)
            assert file is not None  # of a regular file
            found[wanted] = file.read()
            if len(found) == len(set(names)):
                break
    return [found[_there(name, found)] for name in names]


def _around(known: Sequence[str], name: str) -> str:
    """Return what stands before that name in an archive: nothing, or a folder around all."""
    longer = [each for each in known if each == name or each.endswith(f"/{name}")]
    return min(longer, key=len).removesuffix(name) if longer else ""


def _there(name: str, known: dict[str, bytes] | dict[str, zipfile.ZipInfo]) -> str:
    if name not in known:
        raise ValueError(f"it has no {name}")
    return name


def _form(path: Path) -> str:
    kinds = {".zip": ".zip file", ".gz": ".gz file", ".tgz": ".tgz file", ".tar": ".tar file"}
    return "folder" if path.is_dir() else kinds.get(path.suffix, "file")


# -------- The files under a folder or in a .zip, listed before any is read


DEEPEST = 12  # folders in folders
MOST_OF_A_FILE = 500_000_000  # of one file
_NOT_DATA = {"__MACOSX", "Thumbs.db", "desktop.ini"}
"""What systems put into folders by themselves, besides hidden files."""


@dataclass(frozen=True)
class ListedFile:
    """One file: its path as names from the outside in, and what tells whether it changed."""

    parts: tuple[str, ...]
    bytes: int
    stamp: int

    @property
    def name(self) -> str:
        """Return the path inside the box as text, with / between its parts."""
        return "/".join(self.parts)


class Box(Protocol):
    """Something that holds files: a folder or a .zip."""

    path: Path
    files: list[ListedFile]
    """In the order of their names."""

    def read(self, file: ListedFile) -> bytes:
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

    def read(self, file: ListedFile) -> bytes:
        with os.fdopen(open_own(self.path.joinpath(*file.parts), os.O_RDONLY), "rb") as opened:
            data = opened.read(MOST_OF_A_FILE + 1)
        if len(data) > MOST_OF_A_FILE:
            raise ValueError(f"more than {MOST_OF_A_FILE:,} bytes")
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
            (ListedFile(parts, info.file_size, info.CRC) for parts, info in self._infos.items()),
            key=lambda file: file.parts,
        )

    def read(self, file: ListedFile) -> bytes:
        try:
            return open_zip_member(self._archive, self._infos[file.parts], MOST_OF_A_FILE)
        except (zipfile.BadZipFile, EOFError, RuntimeError, NotImplementedError) as error:
            raise ValueError(str(error)) from error
        except Exception as error:  # whatever the ways of compression have
            raise ValueError(f"{type(error).__name__}: {error}") from error


def _walk(folder: Path, above: tuple[str, ...]) -> Iterator[ListedFile]:
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
                yield ListedFile(parts, found.st_size, found.st_mtime_ns)


def _hidden(parts: tuple[str, ...]) -> bool:
    return any((part.startswith(".") and part != "..") or part in _NOT_DATA for part in parts)
