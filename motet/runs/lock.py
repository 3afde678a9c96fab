"""One process per run folder. The system frees the lock when its process ends, however it ends."""

import fcntl
import os
import re
from pathlib import Path

from motet.errors import MotetError
from motet.files import open_own, writing

_held: set[int] = set()


class FolderLock:
    """The exclusive right to write a run folder."""

    def __init__(self, folder: Path):
        path = folder / "lock"
        with writing(path):
            self._descriptor = open_own(path, os.O_RDWR | os.O_CREAT)  # what is not ours is not truncated
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                owner = re.sub(r"[^0-9]", "", os.read(self._descriptor, 20).decode(errors="replace"))
                os.close(self._descriptor)
                raise MotetError(f"run {folder} is in use by process {owner or 'unknown'}") from None
            except OSError:
                os.close(self._descriptor)
                raise
            _held.add(self._descriptor)
            os.ftruncate(self._descriptor, 0)
            os.write(self._descriptor, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        """Let another process write the folder."""
        if self._descriptor in _held:
            _held.remove(self._descriptor)
            os.close(self._descriptor)


def _let_go() -> None:
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


# A forked worker shares its parent's lock and would hold it on after the parent was killed.
os.register_at_fork(after_in_child=_let_go)
