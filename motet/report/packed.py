"""A table that fits: columns that find no room follow in a table below, under the same labels. Nothing is cut off."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

WIDEST_LABEL = 24  # a longer one is folded
GAP = 2  # between two columns


@dataclass(frozen=True)
class Packed:
    """Rows with labels on the left and figures on the right; a title or a cell is plain text, never markup."""

    label_titles: Sequence[str]
    labels: Sequence[Sequence[str]]
    titles: Sequence[str]
    cells: Sequence[Sequence[str]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for i, columns in enumerate(self.packs(options.max_width)):
            if i:
                yield Text()
            yield self._table(columns)

    def packs(self, width: int) -> list[list[int]]:
        """Which columns stand side by side: as many as fit, at least one."""
        room = width - sum(
            min(_width(t, [row[i] for row in self.labels]), WIDEST_LABEL) + GAP for i, t in self._named()
        )
        packs: list[list[int]] = [[]]
        used = 0
        for i, title in enumerate(self.titles):
            wide = _width(title, [row[i] for row in self.cells]) + GAP
            if packs[-1] and used + wide > room:
                packs.append([])
                used = 0
            packs[-1].append(i)
            used += wide
        return packs

    def _named(self) -> list[tuple[int, str]]:
        return list(enumerate(self.label_titles))

    def _table(self, columns: Sequence[int]) -> Table:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
        for i, title in self._named():
            width = min(_width(title, [row[i] for row in self.labels]), WIDEST_LABEL)
            table.add_column(Text(title), overflow="fold", min_width=width, max_width=width)
        for i in columns:
            table.add_column(Text(self.titles[i]), justify="right", no_wrap=True)
        for labels, cells in zip(self.labels, self.cells, strict=True):
            table.add_row(*map(Text, labels), *(Text(cells[i]) for i in columns))
        return table


def _width(title: str, cells: Sequence[str]) -> int:
    return max(cell_len(line) for text in (title, *cells) for line in text.split("\n"))
