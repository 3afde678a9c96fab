"""A picture of a partition in letters: a row for each class, a column for each client, darker for a larger share."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from motet.io.text import printable, shortened
from motet.report.tables.prose import Prose

SHADES = ((0.7, "█"), (0.4, "▓"), (0.2, "▒"), (0.05, "░"))
"""From which share of a client's samples on."""
FEWER = "·"
MOST_ROWS = 20
"""More classes are shown in groups of neighbours."""
MOST_BLOCKS = 4
"""Of clients below one another; the rest is counted."""
WIDEST_NAME = 16
_GAP = 2


@dataclass(frozen=True)
class Shading:
    """Class counts per client, and the names of the classes."""

    counts: Sequence[Sequence[int]]
    class_names: Sequence[str]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rows = self._rows()
        left = max(cell_len(name) for name, _ in rows)
        room = max(10, options.max_width - left - _GAP)
        step = 2 if 2 * len(self.counts) <= room else 1
        block = room // step // 10 * 10 or room // step
        shown = min(len(self.counts), MOST_BLOCKS * block)
        for first in range(0, shown, block):
            clients = range(first, min(first + block, shown))
            yield Text(" " * (left + _GAP) + self._numbers(clients, step), "dim")
            for name, classes in rows:
                cells = (self._shade(client, classes) for client in clients)
                yield Text(name + " " * (left + _GAP - cell_len(name)) + (" " * (step - 1)).join(cells).rstrip())
            yield Text()
        more = f"; {len(self.counts) - shown} more clients are not drawn" if shown < len(self.counts) else ""
        legend = ", ".join([f"{FEWER} fewer", *(f"{sign} from {share:.0%}" for share, sign in reversed(SHADES))])
        yield Prose(f"A column for each client; of its samples, a class has: {legend}{more}", "dim")

    def _rows(self) -> list[tuple[str, range]]:
        """The name and the classes of each row."""
        count = len(self.class_names)
        if count <= MOST_ROWS:
            return [(shortened(printable(name), WIDEST_NAME), range(c, c + 1)) for c, name in self._named()]
        size = -(-count // MOST_ROWS)
        groups = [range(at, min(at + size, count)) for at in range(0, count, size)]
        return [(f"{group[0]}–{group[-1]}" if len(group) > 1 else str(group[0]), group) for group in groups]

    def _named(self) -> Iterator[tuple[int, str]]:
        return enumerate(self.class_names)

    def _shade(self, client: int, classes: range) -> str:
        counts = self.counts[client]
        held = sum(counts[c] for c in classes)
        if not held:
            return " "
        return next((sign for share, sign in SHADES if held >= share * sum(counts)), FEWER)

    @staticmethod
    def _numbers(clients: range, step: int) -> str:
        """The number of every fifth or tenth client, above its column."""
        line = ""
        for client in clients:
            if client % (5 if step > 1 else 10) == 0:
                line = line.ljust((client - clients[0]) * step) + str(client)
        return line
