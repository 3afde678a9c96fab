"""The consoles of the command line: tables and JSON go to stdout, everything else to stderr."""

import codecs
import json
import os
import sys
from io import TextIOWrapper
from typing import Any, TextIO

from rich.console import Console

from motet.io.json_models import to_json
from motet.io.text import printable

_WIDTH_OF_A_FILE = 100
_NARROWEST, _WIDEST = 20, 1000  # narrower tables show nothing, and wider ones take too long to draw
_IN_ASCII = {
    "─": "-",
    "–": "-",
    "−": "-",
    "→": ">",
    "…": "~",
    "±": "+-",
    "†": "+",
    "█": "@",
    "▓": "#",
    "▒": "+",
    "░": ":",
    "·": ".",
}


def output() -> Console:
    """Return the console that writes tables to standard output."""
    return _console(stderr=False)


def messages() -> Console:
    """Return the console that writes progress and notes to standard error."""
    return _console(stderr=True)


def write_json(value: Any) -> None:
    """Write one line of JSON to standard output, in ASCII if the stream takes nothing else."""
    text = to_json(value)
    sys.stdout.write((text if _takes_everything(sys.stdout) else json.dumps(json.loads(text))) + "\n")


def write_text(text: str) -> None:
    """Write a file to standard output for programs, in UTF-8 even if the terminal has another encoding."""
    sys.stdout.flush()
    stream = getattr(sys.stdout, "buffer", None)
    sys.stdout.write(text) if stream is None else stream.write(text.encode())


def note(text: str) -> None:
    """Print one line for the user on standard error, where it does not mix with results."""
    messages().print(printable(text), markup=False, highlight=False, soft_wrap=True)


def _console(stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    if not _takes_everything(stream) and isinstance(stream, TextIOWrapper):
        stream.reconfigure(errors="motet.ascii")  # a table in ASCII is better than none
    return Console(stderr=stderr, width=_width(stream), highlight=False)


def _width(stream: TextIO) -> int | None:
    """Return the width for output from COLUMNS, within limits; None for that of the terminal."""
    asked = os.environ.get("COLUMNS", "").strip()
    if asked.isdecimal() and int(asked[:9]):
        return min(max(int(asked[:9]), _NARROWEST), _WIDEST)
    return None if stream.isatty() else _WIDTH_OF_A_FILE


def _takes_everything(stream: TextIO) -> bool:
    return "utf" in (stream.encoding or "utf").lower()


def _in_ascii(error: UnicodeError) -> tuple[str, int]:
    """Return a replacement for a character that the stream's encoding lacks."""
    assert isinstance(error, UnicodeEncodeError)
    lacking = error.object[error.start : error.end]
    return "".join(_IN_ASCII.get(c) or c.encode("ascii", "backslashreplace").decode() for c in lacking), error.end


codecs.register_error("motet.ascii", _in_ascii)
