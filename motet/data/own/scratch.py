"""A folder for data that nobody else may read, and that does not outlive the process that made it.

A process that is killed cannot clean up behind itself: the next one that makes such a folder does it, and knows by a
lock whose owner is gone.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX, _LOCK = "motet-data-", "owner.lock"


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """An empty folder of this process, which goes with the block."""
    _remove_forsaken()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))  # for this user alone
    lock = _locked(folder / _LOCK, os.O_CREAT)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _remove_forsaken() -> None:
    """What killed processes of this user left behind."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):
            lock = _locked(folder / _LOCK, 0) if folder.lstat().st_uid == os.getuid() else None
            if lock is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)


def _locked(path: Path, flags: int) -> int | None:
    """A descriptor that holds the lock; None where another process holds it, or there is no such file."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | flags, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
