"""A look at a file before it is read: what a user names may be a pipe, a device, a folder, or larger than memory."""

import os
import stat
from pathlib import Path

from motet.errors import MotetError

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def user_path(text: str | os.PathLike[str], what: str) -> Path:
    """The path that a user wrote; `what` names it in the sentence about one that no system can have."""
    if not isinstance(text, str | os.PathLike):
        raise MotetError(f"{what} is a {type(text).__name__}; accepted: a path")
    path = os.fsdecode(os.fspath(text))
    if not path or any(ord(character) < 32 or ord(character) == 127 for character in path):
        reason = "holds control characters" if path else "is empty"
        raise MotetError(f"{what} {path!r} {reason}; accepted: a path")
    try:
        path.encode()
        found = Path(path).expanduser()
        os.path.lexists(found)
        if not found.exists() and len(found.name.encode()) > 255:
            raise OSError("File name too long")
    except (RuntimeError, ValueError, OSError) as error:  # ~nobody, a surrogate, a name that is too long
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise MotetError(f"{what} {shown_path(path)!r} cannot be a path ({reason}); accepted: a path") from None
    return found


def regular_size(path: Path, what: str) -> int:
    """The bytes of a regular file, links followed; whatever is none is refused before it is opened."""
    try:
        found = os.stat(path)
    except ValueError as error:
        raise MotetError(f"{what} cannot be a path ({error}); accepted: a file") from None
    if not stat.S_ISREG(found.st_mode):
        kind = next((name for is_one, name in _KINDS if is_one(found.st_mode)), "no file")
        raise MotetError(f"{what} is {kind}; accepted: a file")
    return found.st_size


def read_small(path: Path, most: int, what: str) -> bytes:
    """The content of a regular file of at most so many bytes; OSError as `open` has it."""
    if regular_size(path, what) <= most:
        with open(path, "rb") as file:
            data = file.read(most + 1)  # the system's own files say that they have no size
        if len(data) <= most:
            return data
    raise MotetError(f"{what} is larger than {most:,} bytes; accepted: a file of text that is not")


def shown_path(path: str | os.PathLike[str]) -> str:
    """A path as a sentence can hold it: its end says most."""
    text = str(path)
    return text if len(text) <= 150 else f"…{text[-149:]}"
