"""What a user did wrong, said in one sentence that names the field, the value and what is accepted."""

import difflib
from collections.abc import Iterable


class MotetError(Exception):
    """A mistake of the user or of the surroundings: shown as one sentence, exit code 2, no traceback."""


class Diverged(MotetError):
    """A client's training left the finite numbers; the round goes on without that client."""


def unknown(kind: str, name: str, known: Iterable[str]) -> MotetError:
    """The error for a name nobody knows, with the nearest known name first."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return MotetError(f"unknown {kind} {name!r}: {hint}accepted: {', '.join(names)}")
