"""Whether another process computes a run at this moment: it holds the folder's lock."""

import fcntl
import os
from pathlib import Path

from motet.runs.record import Record


def is_running(folder: Path) -> bool:
    """Whether somebody holds the lock; looking takes it for no longer than the question, and changes no file."""
    try:
        descriptor = os.open(folder / "lock", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False  # no lock was ever made, or it may not be read
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def how_far(record: Record) -> str:
    """Such as "round 7 of 20"."""
    rounds, count = record.rounds, record.experiment.rounds.count
    return f"round {rounds[-1]['round'] if rounds else 0} of {count}"
