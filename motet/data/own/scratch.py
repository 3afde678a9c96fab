"""Folders for data that nobody else may read, and that do not outlive the process that made them.

A process that is killed cannot clean up behind itself: the next one that makes such a folder does it, and knows by a
lock on the folder whose owner is gone.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX = "motet-scratch-"
_locks: dict[Path, int] = {}
"""The open folders of this process, whose locks go with it."""


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """An empty folder of this process, which goes with the block."""
    folder = new_scratch_folder()
    try:
        yield folder
    finally:
        remove_scratch_folder(folder)


def new_scratch_folder() -> Path:
    """An empty folder of this process, for its user alone."""
    for forsaken in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            _remove_if_forsaken(forsaken)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    lock = _locked(folder)
    if lock is not None:
        _locks[folder] = lock
    return folder


def remove_scratch_folder(folder: Path) -> None:
    """With all that is in it."""
    shutil.rmtree(folder, ignore_errors=True)
    lock = _locks.pop(folder, None)
    if lock is not None:
        os.close(lock)


def _remove_if_forsaken(folder: Path) -> None:
    if folder.lstat().st_uid != os.getuid() or not any(folder.iterdir()):  # an empty one may just have been made
        return
    lock = _locked(folder)
    if lock is not None:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _locked(folder: Path) -> int | None:
    """A descriptor that holds the lock; None where somebody else does."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
