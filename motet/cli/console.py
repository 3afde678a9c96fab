"""Where the command line writes: tables and JSON on stdout, everything else on stderr."""

import os
import sys
from typing import Any

from rich.console import Console

from motet.files import to_json
from motet.printable import printable

_WIDTH_OF_A_FILE = 100


def output() -> Console:
    """Standard output, for tables."""
    return _console(stderr=False)


def messages() -> Console:
    """Standard error, for progress and notes."""
    return _console(stderr=True)


def write_json(value: Any) -> None:
    """One line of JSON on standard output."""
    sys.stdout.write(to_json(value) + "\n")


def note(text: str) -> None:
    """One line for the user that is no result."""
    messages().print(printable(text), markup=False, highlight=False, soft_wrap=True)


def _console(stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    known = stream.isatty() or "COLUMNS" in os.environ
    return Console(stderr=stderr, width=None if known else _WIDTH_OF_A_FILE, highlight=False)
