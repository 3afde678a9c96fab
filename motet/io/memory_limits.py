"""How much memory there is, asked before much of it is taken: a sentence instead of a machine that stands still."""

import os
import re
from pathlib import Path

from motet.errors import MotetError

_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")


def refuse_if_too_large(needed: float, what: str, accepted: str) -> None:
    """Raise a sentence if so many bytes are not there; `what` needs them, `accepted` says what would do."""
    free = free_memory()
    if needed > free:
        raise MotetError(
            f"{what} needs {in_words(needed)} of memory and {in_words(free)} are free; accepted: {accepted}"
        )


def free_memory() -> int:
    """Bytes that this process may still take: of the machine, or of the container that it runs in."""
    return max(0, min(_of_machine(), _of_container()))


def in_words(size: float) -> str:
    """Such as 3.2 TB."""
    for unit in ("bytes", "kB", "MB", "GB", "TB", "PB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return "more than 1000 PB"


def _of_machine() -> int:
    try:
        found = re.search(r"^MemAvailable:\s+(\d+) kB", _MEMINFO.read_text(), re.MULTILINE)
    except OSError:  # another system
        found = None
    if found:
        return int(found[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _of_container() -> int:
    try:
        most = (_CGROUP / "memory.max").read_text().strip()
        taken = int((_CGROUP / "memory.current").read_text())
        return int(most) - taken if most.isdigit() else 2**63
    except (OSError, ValueError):
        return 2**63
