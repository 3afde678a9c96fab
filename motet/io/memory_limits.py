"""How much memory there is, asked before much of it is taken, and how the C library keeps what torch freed.

A sentence is better than a machine that stands still.
"""

import ctypes
from contextlib import suppress
from pathlib import Path

import psutil

from motet.errors import MotetError

# -------- How the C library treats memory that torch is done with


_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
_LARGEST_BLOCK, _MOST_KEPT = 10**9, 2 * 10**9  # bytes


def keep_freed_memory() -> None:
    """Keep freed blocks in this process, or activations go back to the system and are faulted in at every step."""
    with suppress(OSError, AttributeError):  # another C library has no mallopt and needs none
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_BLOCK)
        mallopt(_M_TRIM_THRESHOLD, _MOST_KEPT)


def return_freed_memory() -> None:
    """Give freed blocks back to the system: where models pass through a process that mostly waits."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


# -------- How much memory there is, asked before much of it is taken


_CGROUP = Path("/sys/fs/cgroup")  # psutil knows the machine; a container may have less
_NO_LIMIT = 2**63


def refuse_if_too_large(needed: float, what: str, accepted: str) -> None:
    """Raise a `MotetError` if fewer bytes are free than `what` needs; `accepted` says what would fit."""
    free = free_memory()
    if needed > free:
        raise MotetError(
            f"{what} needs {in_words(needed)} of memory and {in_words(free)} are free; accepted: {accepted}"
        )


def free_memory() -> int:
    """Return the bytes that this process may still take: of the machine, or of the container that it runs in."""
    return max(0, min(int(psutil.virtual_memory().available), _of_container()))


def total_memory() -> int:
    """Return the bytes of memory that this machine has."""
    return int(psutil.virtual_memory().total)


def in_words(size: float) -> str:
    """Return a number of bytes as people write it, such as 3.2 TB."""
    for unit in ("bytes", "kB", "MB", "GB", "TB", "PB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return "more than 1000 PB"


def _of_container() -> int:
    """Return the bytes that a Linux control group leaves; a large number where there is no limit."""
    try:
        most = (_CGROUP / "memory.max").read_text().strip()
        taken = int((_CGROUP / "memory.current").read_text())
        return int(most) - taken if most.isdigit() else _NO_LIMIT
    except (OSError, ValueError):
        return _NO_LIMIT
