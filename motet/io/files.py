"""Files that survive a kill and a power cut, and errors of the disk in one sentence.

A run folder may come from somebody else, so what is read or changed in place is a file of its own: no link leads away
from it, no other name leads to it, and it is no pipe or device that would answer for ever.
"""

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from motet.errors import MotetError
from motet.io.json_models import to_json
from motet.io.memory_limits import total_memory

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


class NotOwn(OSError):
    """An error about a path that is no regular file of its folder, or too large; `strerror` says what it is."""


MOST_BYTES = total_memory()
"""The most bytes of a file that is read whole: as many as this machine has memory."""

# Windows has none of these flags but O_BINARY: its files are never inherited and open without waiting.
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)
_BYTES = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_SYNCS_FOLDERS = os.name != "nt"
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK | _BYTES


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Inside, an `OSError` becomes a `MotetError` whose one sentence names the file and what to do."""
    try:
        yield
    except OSError as error:
        if isinstance(error, NotOwn):
            reason, remedy = error.strerror, "remove it"
        else:
            reason = os.strerror(error.errno) if error.errno else str(error)
            remedy = _REMEDIES.get(error.errno or 0, "")
        raise MotetError(f"cannot write {path}: {reason}" + (f"; {remedy}" if remedy else "")) from error


def open_own(path: Path, flags: int) -> int:
    """Open a regular file that is no link, with the flags of `os.open`; return its descriptor, never wait for a pipe.

    Raises `NotOwn` for anything else, and for a second name of a file (a hard link) if it would be written.
    """
    if not _NO_LINK and path.is_symlink():  # where the system cannot refuse a link while it opens
        raise NotOwn(errno.ELOOP, "it is a link, not a file of the folder", str(path))
    try:
        descriptor = os.open(path, flags | _NO_LINK | _NO_WAIT | _BYTES, 0o644)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise NotOwn(error.errno, f"it is {kind_of_file(path)}, not a file of the folder", str(path)) from None
        raise
    found = os.fstat(descriptor)
    wrong = None
    if not stat.S_ISREG(found.st_mode):
        wrong = f"it is {kind_of_file(path)}, not a file of the folder"
    elif flags & (os.O_WRONLY | os.O_RDWR) and found.st_nlink > 1:
        wrong = "it has another name elsewhere (a hard link), and what is written here would change there"
    if wrong:
        os.close(descriptor)
        raise NotOwn(errno.EINVAL, wrong, str(path))
    return descriptor


def read_own(path: Path, most: int = MOST_BYTES) -> bytes:
    """Return the bytes of a regular file that is no link; raise `NotOwn` if it has more than `most`."""
    with os.fdopen(open_own(path, os.O_RDONLY), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise NotOwn(errno.EFBIG, f"it has {size:,} bytes; accepted: up to {most:,}", str(path))
        return file.read(size)


def kind_of_file(path: Path) -> str:
    """Return what a path is, in words: a file, a link, a folder, a pipe, a device or socket, or nothing."""
    try:
        mode = path.lstat().st_mode
    except OSError:
        return "nothing"
    if stat.S_ISREG(mode):
        return "a file"
    return {stat.S_IFLNK: "a link", stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe"}.get(
        stat.S_IFMT(mode), "a device or socket"
    )


def is_own_folder(path: Path) -> bool:
    """Return whether a folder is there that is no link; raise a `MotetError` if something else is in its place."""
    kind = kind_of_file(path)
    if kind not in ("a folder", "nothing"):
        raise MotetError(f"{path} is {kind}; accepted: a folder of its own, so that nothing outside it is touched")
    return kind == "a folder"


def refuse_special(path: Path) -> None:
    """Raise a `MotetError` before a file is written over something that is no file, such as /dev/null."""
    kind = kind_of_file(path)
    if kind not in ("a file", "nothing"):
        raise MotetError(f"cannot write {path}: it is {kind}; accepted: a file, or a name that nothing has yet")


def refuse_links(folder: Path) -> None:
    """Raise a `MotetError` if a folder holds a link at any depth, through which a write would land elsewhere."""
    for inside, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(inside, name)
            if path.is_symlink():
                raise MotetError(
                    f"{path} is a link; accepted: folders and files of its own, so that nothing outside is touched"
                )


def make_folder(path: Path) -> None:
    """Create a folder and those above it, if they are not there, and sync the name."""
    if not path.is_dir():
        with writing(path):
            path.mkdir(parents=True, exist_ok=True)
        sync_folder(path.parent)


def write_atomic(path: Path, data: bytes) -> None:
    """Write a whole file or nothing; it is on disk when this returns."""
    replace_file(path, data)
    sync_folder(path.parent)


def replace_file(path: Path, data: bytes) -> None:
    """Do as `write_atomic` does, but let the name reach the disk only with the next `sync_folder`."""
    refuse_special(path)
    temporary = path.with_name(f".{path.name}.tmp")
    with writing(path):
        try:
            with suppress(FileNotFoundError):
                os.unlink(temporary)  # of a process that was killed, or a link that leads elsewhere
            with os.fdopen(os.open(temporary, _NEW, 0o644), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise


def sync_folder(folder: Path) -> None:
    """fsync a folder, so that the names in it survive a power cut; Windows cannot, and does nothing."""
    if not _SYNCS_FOLDERS:
        return
    with writing(folder):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def remove_temporaries(folder: Path) -> None:
    """Remove the temporary files that a killed process left half written."""
    for path in folder.glob(".*.tmp"):
        with suppress(OSError):
            path.unlink()


def append_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Append rows to a file, one JSON object per line."""
    append_text(path, "".join(to_json(row) + "\n" for row in rows))


def append_text(path: Path, text: str) -> None:
    """Append whole lines to a file, which is made if it is not there."""
    with writing(path), os.fdopen(open_own(path, _APPEND), "ab") as file:
        file.write(text.encode())


def synced_length(path: Path) -> int:
    """fsync a file and return its length in bytes; 0 for a file that is not there."""
    if not os.path.lexists(path):
        return 0
    with writing(path), os.fdopen(open_own(path, _APPEND), "ab") as file:
        os.fsync(file.fileno())
        return os.fstat(file.fileno()).st_size


def truncate(path: Path, length: int) -> None:
    """Cut a file to the length it once had; raise a `MotetError` if it is shorter, for then it has lost data."""
    with writing(path), os.fdopen(open_own(path, _APPEND), "ab") as file:
        found = os.fstat(file.fileno()).st_size
        if found < length:
            raise MotetError(f"{path} has {found} bytes; accepted: at least the {length} that its checkpoint counts on")
        file.truncate(length)
        os.fsync(file.fileno())
