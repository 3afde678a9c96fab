"""How the C library treats memory that torch is done with."""

import ctypes
from contextlib import suppress

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
_LARGEST_BLOCK, _MOST_KEPT = 10**9, 2 * 10**9  # bytes


def keep_freed_memory() -> None:
    """Keep freed blocks in this process, or activations go back to the system and are faulted in at every step."""
    with suppress(OSError, AttributeError):  # another C library has no mallopt and needs none
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_BLOCK)
        mallopt(_M_TRIM_THRESHOLD, _MOST_KEPT)
