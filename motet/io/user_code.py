"""Code that is the user's own: what its modules are called, and whether an error arose in it.

Apart from `motet/io/plugins.py`, so that `--help` and every error need no torch.
"""

import builtins
import os
import sys
import sysconfig
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from motet.errors import MotetError, one_sentence

USERS = "motet_user_"
"""How the names of modules begin that an experiment imports from a user's file."""

NAMED: set[str] = set()
"""Modules that an experiment named, `my_package.methods:Mine`; they may be installed beside others."""

OWN_CODE = "your own code raised"
"""How a sentence says whose error it is: it travels as text, through workers and journals, to the exit code."""

HINT = "to look into it, put breakpoint() there and run it in one process: motet run … --set engine.name=inline"

_OURS = str(Path(__file__).parents[1])
_PYTHONS = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}
_INSTALLED = {"site-packages", "dist-packages"}


class InAnotherProcess(Exception):
    """The traceback of a worker process as text: the cause of the error that the parent raises for it."""

    def __init__(self, text: str, place: str):
        super().__init__(f"\n{text}")
        self.text, self.place = text, place


def place_of(error: BaseException) -> str | None:
    """The last place in the user's own code that an error came through, `mine.py, line 2`; None if there is none."""
    if isinstance(error.__cause__, InAnotherProcess):
        return error.__cause__.place
    own = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__) if _is_own(frame)]
    return f"{own[-1][0].f_code.co_filename}, line {own[-1][1]}" if own else None


def said_of(error: BaseException, place: str) -> str:
    """One sentence about an error of the user's own code."""
    return one_sentence(f"{OWN_CODE} {type(error).__name__}: {error} (in {place})")


def trace_of(error: BaseException) -> str:
    """The whole traceback; of an error in a worker process that one, which tells more than the parent's."""
    if isinstance(error.__cause__, InAnotherProcess):
        return error.__cause__.text
    return "".join(traceback.format_exception(error))


def packed(error: BaseException, place: str) -> dict[str, Any]:
    """An error of the user's own code as JSON, so that another process can raise it."""
    kind = type(error)
    return {
        "kind": [kind.__module__, kind.__qualname__],
        "arguments": [a if isinstance(a, str | int | float | bool | None) else str(a) for a in error.args],
        "words": str(error),
        "place": place,
        "trace": trace_of(error),
    }


def unpacked(told: Mapping[str, Any]) -> Exception:
    """Return the error that `packed` describes, of its own type if this process knows it, caused by the traceback."""
    error = _of_its_type(told["kind"], told["arguments"], told["words"])
    error = error or RuntimeError(f"{told['kind'][1]}: {told['words']}")
    error.__cause__ = InAnotherProcess(told["trace"], told["place"])
    return error


def _of_its_type(name: Sequence[str], arguments: Sequence[Any], words: str) -> Exception | None:
    home = builtins if name[0] == "builtins" else sys.modules.get(name[0])
    kind = getattr(home, name[1], None)
    if not (isinstance(kind, type) and issubclass(kind, Exception)) or issubclass(kind, MotetError | StopIteration):
        return None
    try:
        error = kind(*arguments)
        return error if str(error) == words else None
    except Exception:  # its constructor wants what no text tells
        return None


def _is_own(frame: FrameType) -> bool:
    """Whether it is neither ours nor Python's nor installed, or else a module that an experiment named."""
    name = str(frame.f_globals.get("__name__", ""))
    if name.startswith(USERS) or name in NAMED:
        return True
    file = Path(frame.f_code.co_filename)
    if not file.is_absolute() or _is_in(file, _OURS) or _INSTALLED & set(file.parts):  # relative: <frozen …>, <string>
        return False
    return not any(_is_in(file, folder) for folder in _PYTHONS)


def _is_in(file: Path, folder: str) -> bool:
    return str(file).startswith(os.path.join(folder, ""))
