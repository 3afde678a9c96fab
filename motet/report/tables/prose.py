"""Sentences around a table: wrapped between words, so that a name stays in one piece if a line has room for it."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.text import Text


@dataclass(frozen=True)
class Prose:
    """A paragraph that is wrapped between words; its text is never read as markup."""

    text: str
    style: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        for line in wrapped(self.text, options.max_width) or [""]:
            yield Text(line, style=self.style, overflow="fold")


def wrapped(text: str, width: int) -> list[str]:
    """Return lines of whole words; a word that is wider than a line gets a line of its own."""
    lines: list[str] = []
    for word in text.split(" "):
        if lines and cell_len(lines[-1]) + 1 + cell_len(word) <= width:
            lines[-1] += " " + word
        else:
            lines.append(word)
    return [line.rstrip() for line in lines]
