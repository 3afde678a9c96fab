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
    """Something that is no file of its own, or too large to be one; `strerror` says what it is."""


MOST_BYTES = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
"""Of a file that is read whole: this machine's memory."""


_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the disk refuses into one sentence that names the file."""
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
    """A descriptor of a regular file that no link leads to, in the words of `os.open`; never waits for a pipe."""
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
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
    """The bytes of a regular file that is no link; an `OSError` for what is too large to be sane."""
    with os.fdopen(open_own(path, os.O_RDONLY), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise NotOwn(errno.EFBIG, f"it has {size:,} bytes; accepted: up to {most:,}", str(path))
        return file.read(size)


def kind_of_file(path: Path) -> str:
    """What a path is, whatever it leads to."""
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
    """Whether it is a folder that no link leads to; an error where something else is in its place."""
    kind = kind_of_file(path)
    if kind not in ("a folder", "nothing"):
        raise MotetError(f"{path} is {kind}; accepted: a folder of its own, so that nothing outside it is touched")
    return kind == "a folder"


def refuse_special(path: Path) -> None:
    """Before a file is written: what is there already and is no file, such as /dev/null, would be lost under it."""
    kind = kind_of_file(path)
    if kind not in ("a file", "nothing"):
        raise MotetError(f"cannot write {path}: it is {kind}; accepted: a file, or a name that nothing has yet")


def refuse_links(folder: Path) -> None:
    """Before work goes on in a folder that may be anybody's: no link at any depth leads what is written elsewhere."""
    for inside, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(inside, name)
            if path.is_symlink():
                raise MotetError(
                    f"{path} is a link; accepted: folders and files of its own, so that nothing outside is touched"
                )


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
    append_text(path, "".join(to_json(row) + "\n" for row in rows))


def append_text(path: Path, text: str) -> None:
    """Add whole lines to a file, which is made if it is not there."""
    with writing(path), os.fdopen(open_own(path, _APPEND), "ab") as file:
        file.write(text.encode())


def synced_length(path: Path) -> int:
    """The length of a file in bytes, all of them on disk; 0 for a file that is not there."""
    if not os.path.lexists(path):
        return 0
    with writing(path), os.fdopen(open_own(path, _APPEND), "ab") as file:
        os.fsync(file.fileno())
        return os.fstat(file.fileno()).st_size


def truncate(path: Path, length: int) -> None:
    """Cut a file to the length it once had; a file that is shorter has lost data."""
    with writing(path), os.fdopen(open_own(path, _APPEND), "ab") as file:
        found = os.fstat(file.fileno()).st_size
        if found < length:
            raise MotetError(f"{path} has {found} bytes; accepted: at least the {length} that its checkpoint counts on")
        file.truncate(length)
        os.fsync(file.fileno())
