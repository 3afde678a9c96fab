"""One process writes a folder at a time. The system frees the lock when that process ends, however it ends."""

import os
import re
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from motet.errors import MotetError
from motet.io.files import open_own, writing

_LOCK_FILE = "lock"


class FolderLock:
    """The exclusive right to write a run folder, held until `release`.

    A forked child does not hold it: filelock drops the descriptor there, so that the lock ends with its owner.
    """

    def __init__(self, folder: Path):
        """Take the lock, or raise a sentence that names the process that has it."""
        path = folder / _LOCK_FILE
        with writing(path):
            os.close(open_own(path, os.O_RDWR | os.O_CREAT))  # a link, a pipe or a second name is refused here
            self._lock = FileLock(path, blocking=False, thread_local=False)
            try:
                self._lock.acquire()
            except Timeout:
                raise MotetError(f"run {folder} is in use by process {_owner(path) or 'unknown'}") from None
            # Windows lets nobody write a file that is locked, not even its owner: there the number is missing.
            with suppress(PermissionError), os.fdopen(open_own(path, os.O_WRONLY), "w") as file:
                file.truncate(0)
                file.write(f"{os.getpid()}\n")

    def release(self) -> None:
        """Let another process write the folder; a second call does nothing."""
        self._lock.release(force=True)


def is_running(folder: Path) -> bool:
    """Return whether another process holds the folder's lock; asking changes no file and creates none."""
    path = folder / _LOCK_FILE
    try:
        os.close(open_own(path, os.O_RDONLY))
    except OSError:
        return False  # no lock was ever made, or it may not be read
    lock = FileLock(path, blocking=False, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        return True
    except OSError:
        return False  # a folder that may be read but not written: nobody here could hold it
    lock.release()
    return False


def _owner(path: Path) -> str:
    """Return the process id that the lock file holds, or an empty text."""
    with suppress(OSError), os.fdopen(open_own(path, os.O_RDONLY), "rb") as file:
        return re.sub(r"[^0-9]", "", file.read(20).decode(errors="replace"))
    return ""
