"""Foreign text made safe to print: names of clients, classes, files and methods, alone or several in a sentence.

A terminal shows such text and never obeys it.
"""

import unicodedata
from collections.abc import Iterable

from rich.cells import cell_len, set_cell_size

from motet.errors import shown

_OBEYED = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}  # control, direction marks, half characters, line ends
ELLIPSIS = "…"


def printable(text: object) -> str:
    """The text with every character that would move, colour or turn what is around it written as \\x1b or \\u202e."""
    return "".join(_written(c) if unicodedata.category(c) in _OBEYED else c for c in str(text))


def shortened(text: str, width: int) -> str:
    """The text in at most so many cells: its beginning and its end, because names often differ at the end alone."""
    if cell_len(text) <= width:
        return text
    tail = _tail(text, (width - 1) // 2)
    return set_cell_size(text, width - 1 - cell_len(tail)).rstrip() + ELLIPSIS + tail


def _tail(text: str, width: int) -> str:
    at = len(text)
    while at and cell_len(text[at - 1 :]) <= width:
        at -= 1
    return text[at:]


def _written(c: str) -> str:
    short = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
    if c in short:
        return short[c]
    return f"\\x{ord(c):02x}" if ord(c) < 0x100 else f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}"


# -------- Names in a sentence


MOST_NAMED = 8


def listed(names: Iterable[str]) -> str:
    """The first names in quotation marks, and how many more there are."""
    return some(list(map(shown, names)))


def some(words: list[str]) -> str:
    """The first of several words, and how many more there are."""
    more = f" and {len(words) - MOST_NAMED:,} more" if len(words) > MOST_NAMED else ""
    return ", ".join(words[:MOST_NAMED]) + more
