"""The layout of tables and the sentences around them.

Columns that do not fit follow in a table below, with the same labels. No digit is ever cut. A label that does not fit
is shortened in its middle, and written in full below the table.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from motet.io.text import shortened
from motet.metrics.wording import NOTHING

# -------- Sentences around a table


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


# -------- A table that fits


GAP = 2  # between two columns
LEAST_LABEL = 8  # a label is not made shorter than that
MODEST_LABEL = 20  # nor shorter than that where columns may as well go below


@dataclass(frozen=True)
class Packed:
    """Rows with labels on the left and figures on the right; a title or a cell is plain text, never markup."""

    label_titles: Sequence[str]
    labels: Sequence[Sequence[str]]
    titles: Sequence[str]
    cells: Sequence[Sequence[str | Text]]
    groups: Sequence[str] = field(default=())  # the group of each column, written above neighbours of the same group

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        shown, packs = self._layout(options.max_width)
        for i, columns in enumerate(packs):
            if i:
                yield Text()
            yield from self._table(columns, shown)
        yield from self._in_full(shown)

    def packs(self, width: int) -> list[list[int]]:
        """Return which columns stand side by side, in as few tables as possible of about the same width."""
        return self._layout(width)[1]

    def _layout(self, width: int) -> tuple[list[int], list[list[int]]]:
        """Return the widths of the labels and the tables; labels are shortened only where that saves a table."""
        like = list(self._label_wishes)
        widest = max((self._width_of([i]) for i in range(len(self.titles))), default=0)
        _shrink(like, max(width // 2, width - widest), LEAST_LABEL)
        packs = self._packs(width, like)
        modest = list(like)
        while len(packs) > 1 and _shrink(modest, _sum(modest) - 1, MODEST_LABEL):
            fewer = self._packs(width, modest)
            if len(fewer) < len(packs):
                like, packs = list(modest), fewer
        return like, packs

    def _packs(self, width: int, label_widths: Sequence[int]) -> list[list[int]]:
        room = width - _sum(label_widths)
        units = self._units(room)
        packs = self._filled(room, units)
        for less in range(room - 1, room // 2, -1):
            narrower = self._filled(less, units)
            if len(narrower) > len(packs):
                break
            packs = narrower
        return packs

    def _filled(self, room: int, units: Sequence[list[int]]) -> list[list[int]]:
        packs: list[list[int]] = [[]]
        for columns in units:
            if packs[-1] and self._width_of([*packs[-1], *columns]) > room:
                packs.append([])
            packs[-1] += columns
        return packs

    def _units(self, room: int) -> list[list[int]]:
        """Return the columns that stay together: groups that fit, or else single columns."""
        units: list[list[int]] = []
        for _, neighbours in groupby(range(len(self.titles)), key=lambda i: self._group(i) or i):
            columns = list(neighbours)
            units += [columns] if self._width_of(columns) <= room else [[i] for i in columns]
        return units

    def _group(self, column: int) -> str:
        return self.groups[column] if self.groups else ""

    def _width_of(self, columns: Sequence[int]) -> int:
        return sum(self._widths(columns).values()) + GAP * (len(columns) - 1)

    def _widths(self, columns: Sequence[int]) -> dict[int, int]:
        """Return the width of each column; the first of a group grows if the title of the group needs more room."""
        widths = {i: self._column_widths[i] for i in columns}
        for name, members in self._spans(columns):
            room = sum(widths[i] for i in members) + GAP * (len(members) - 1)
            longest = max(map(cell_len, name.split()), default=0)  # lines can be wrapped, words cannot
            widths[members[0]] += max(0, longest - room)
        return widths

    def _spans(self, columns: Sequence[int]) -> list[tuple[str, list[int]]]:
        return [(name, list(members)) for name, members in groupby(columns, key=self._group)]

    @cached_property
    def _label_wishes(self) -> list[int]:
        return [_width(title, [row[i] for row in self.labels]) for i, title in enumerate(self.label_titles)]

    @cached_property
    def _column_widths(self) -> list[int]:
        return [_width(title, [row[i] for row in self.cells]) for i, title in enumerate(self.titles)]

    def _table(self, columns: Sequence[int], label_widths: Sequence[int]) -> Iterator[Text]:
        widths, short = self._widths(columns), self._short(label_widths)
        gap = " " * GAP
        left = _sum(label_widths)
        for line in self._group_lines(columns, widths):
            yield _line(" " * left + line)
        titles = [*(title.split("\n") for title in self.label_titles), *(self.titles[i].split("\n") for i in columns)]
        height = max(map(len, titles))
        for at in range(height):
            words = [lines[at - height + len(lines)] if at >= height - len(lines) else "" for lines in titles]
            names = [_left(shortened(w, wide), wide) for w, wide in zip(words, label_widths, strict=False)]
            over = [_right(w, widths[i]) for w, i in zip(words[len(label_widths) :], columns, strict=True)]
            yield _line(gap.join([*names, *over]))
        yield _line("─" * (left + self._width_of(columns)))
        for labels, cells in self._rows(columns):
            names = [_left(of[text], wide) for text, wide, of in zip(labels, label_widths, short, strict=True)]
            row = Text(gap.join(names))
            for n, i in enumerate(columns):
                row.append(gap if n or names else "")
                cell = cells[i]
                row.append(" " * (widths[i] - cell_len(_plain(cell))))
                row.append(cell if isinstance(cell, Text) else Text(cell))
            yield _line(row)

    def _rows(self, columns: Sequence[int]) -> list[tuple[Sequence[str], Sequence[str | Text]]]:
        """Return labels and cells of a table's rows; one that follows below leaves out rows that are empty there."""
        rows = list(zip(self.labels, self.cells, strict=True))
        if not columns or columns[0] == 0:
            return rows
        return [row for row in rows if any(_plain(row[1][i]) != NOTHING for i in columns)] or rows

    def _group_lines(self, columns: Sequence[int], widths: dict[int, int]) -> Iterator[str]:
        blocks = []
        for name, members in self._spans(columns):
            room = sum(widths[i] for i in members) + GAP * (len(members) - 1)
            blocks.append((room, [line for part in name.split("\n") if part for line in wrapped(part, room)]))
        height = max((len(lines) for _, lines in blocks), default=0)
        for at in range(height):
            parts = []
            for room, lines in blocks:
                text = lines[at - height + len(lines)] if at >= height - len(lines) else ""
                parts.append(_middle(text, room))
            yield (" " * GAP).join(parts)

    def _in_full(self, label_widths: Sequence[int]) -> Iterator[Text | Prose]:
        """Yield a line for each label that was shortened, with its full text."""
        said = [(text, short) for of in self._short(label_widths) for text, short in of.items() if text != short]
        if said:
            yield Text()
        for text, short in said:
            yield Prose(f"{short}  is  {text}", "dim")

    def _short(self, label_widths: Sequence[int]) -> list[dict[str, str]]:
        """Return the shortened form of each label, column by column; two that would look alike are numbered."""
        found = []
        for i, wide in enumerate(label_widths):
            names = list(dict.fromkeys(row[i] for row in self.labels))
            short = {name: shortened(name, wide) for name in names}
            looks = Counter(short.values())
            for number, name in enumerate((name for name in names if looks[short[name]] > 1), 1):
                tag = f"#{number}"
                short[name] = shortened(name, wide - len(tag)) + tag
            found.append(short)
        return found


def _sum(label_widths: Sequence[int]) -> int:
    return sum(wide + GAP for wide in label_widths)


def _shrink(widths: list[int], room: int, least: int) -> bool:
    """Take width from the widest until all fit, but none below the least; return whether anything was taken."""
    before = sum(widths)
    while _sum(widths) > room and max(widths, default=0) > least:
        widths[widths.index(max(widths))] -= 1
    return sum(widths) < before


def _plain(cell: str | Text) -> str:
    return cell.plain if isinstance(cell, Text) else cell


def _width(title: str, cells: Sequence[str | Text]) -> int:
    return max(cell_len(line) for text in (title, *map(_plain, cells)) for line in text.split("\n"))


def _left(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text))


def _right(text: str, width: int) -> str:
    return " " * (width - cell_len(text)) + text


def _middle(text: str, width: int) -> str:
    before = (width - cell_len(text) + 1) // 2
    return " " * before + text + " " * (width - cell_len(text) - before)


def _line(text: str | Text) -> Text:
    """Return one line of the screen that is not wrapped, without spaces at its end."""
    line = text if isinstance(text, Text) else Text(text)
    line.rstrip()
    line.no_wrap, line.overflow = True, "ignore"
    return line
