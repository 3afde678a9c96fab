"""A grid of cells by two sets of names: shades, two colours about zero, or bubbles; optionally with bars beside its
rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt

from motet.report.charts import frame
from motet.report.charts.frame import ChartTable, Key, written
from motet.report.charts.pen import Pen, fitted, width_of

MOST_CELLS = 12_000
ALIKE = 0.05  # values whose range is a smaller share of the largest have one shade
MOST_NUMBERS = 420  # up to so many cells show their number
DARKEST_UNDER_WORDS = 0.55  # so that a number on a cell can be read
LONGEST_NAME = 92.0  # pixels, of a column's name
ROOMY, SMALLEST_NAMED = 20, 11  # row heights in pixels: for large text, for any text


@dataclass(frozen=True)
class _Places:
    """Where the cells of a grid are, and which labels have room."""

    left: float
    top: float
    wide: float
    tall: float
    head: float
    bars: float
    named: bool
    leaning: bool

    def x(self, column: int) -> float:
        return self.left + self.wide * column

    def y(self, row: int) -> float:
        return self.top + self.tall * row


@dataclass(frozen=True)
class Grid:
    """A grid of cells in one frame; `values[row][column]` is None where there is no value."""

    x_names: Sequence[str]
    y_names: Sequence[str]
    values: Sequence[Sequence[float | None]]
    kind: str = "heat"  # or "about_zero", "bubbles"
    x_label: str = ""
    y_label: str = ""
    digits: int = 1
    signed: bool = False
    beside: Sequence[float] = ()  # a bar for each row
    beside_label: str = ""

    def is_empty(self) -> bool:
        return not any(value is not None for row in self.values for value in row)

    def legend_keys(self) -> list[Key]:
        if self.kind == "heat":
            low, high = map(self._words, self._ends)
            words = f"all alike, {low} to {high}" if self._alike else f"from {low} (pale) to {high} (strong)"
            return [Key("heat", words, "area")]
        if self.kind != "about_zero":
            return []
        return [Key("up", "above zero: better", "area"), Key("down", "below zero: worse", "area")]

    def table(self) -> ChartTable:
        rows = [[name, *map(self._words, row)] for name, row in zip(self.y_names, self.values, strict=True)]
        titles = [self.y_label, *self.x_names]
        if self.beside:
            titles.append(self.beside_label)
            rows = [[*row, written(n)] for row, n in zip(rows, self.beside, strict=True)]
        return ChartTable(titles, rows)

    def svg(self, width: int, page: bool, title: str, alt: str) -> str:
        pen = Pen(page)
        at = self._places(width, 4 + frame.draw(pen, [] if page else self.legend_keys(), 8, 4, width - 8))
        if self.x_label:
            words = f"rows: {self.y_label}; columns: {self.x_label}"
            pen.text(8, at.head + 10, fitted(words, width - 16, 11), "tick")
        self._column_names(pen, at)
        for i, name in enumerate(self.y_names):
            if at.named:
                size = 12 if at.tall >= ROOMY else 10
                middle = at.y(i) + at.tall / 2 + 4
                pen.text(at.left - 6, middle, fitted(name, at.left - 8, size), "name" if size == 12 else "small", "end")
            for j, value in enumerate(self.values[i]):
                if value is not None:
                    self._cell(pen, at, i, j, value)
        if self.beside:
            self._bars(pen, at)
        return pen.svg(width, at.y(len(self.y_names)) + 10, title, alt)

    def _places(self, width: int, head: float) -> "_Places":
        rows = len(self.y_names)
        tall = 24.0 if rows <= 24 else 16.0 if rows <= 45 else max(6.0, 900 / rows)
        named = tall >= SMALLEST_NAMED
        size = 12 if tall >= ROOMY else 10
        left = min(max(width_of(name, size) for name in self.y_names) + 14, width * 0.34) if named else 14.0
        bars = (110.0 if width > 400 else 56.0) if self.beside else 0.0
        wide = min((width - left - 12 - bars) / max(1, len(self.x_names)), 64.0)
        longest = max((width_of(name, 11) for name in self.x_names), default=0.0)
        leaning = longest > wide - 4
        if leaning and not bars:  # the last name leans out of its column
            beyond = 0.7 * min(longest, LONGEST_NAME, width_of(self.x_names[-1], 11))
            wide = min(wide, (width - left - beyond - 4) / max(1, len(self.x_names)))
        names = min(longest, LONGEST_NAME) * 0.77 + 14 if leaning else 20.0
        top = head + (16 if self.x_label else 0) + names
        return _Places(left, top, wide, tall, head, bars, named, leaning)

    def _column_names(self, pen: Pen, at: "_Places") -> None:
        """Write the names above the columns, slanted where they are long; very narrow columns are not all named."""
        step = int(15 / at.wide) + 1 if at.leaning else 1
        for j in range(0, len(self.x_names), step):
            middle = at.x(j) + at.wide / 2
            if at.leaning:
                pen.text(middle + 3, at.top - 5, fitted(self.x_names[j], LONGEST_NAME, 11), "tick", turn=-50)
            else:
                pen.text(middle, at.top - 7, self.x_names[j], "tick", "middle")

    def _cell(self, pen: Pen, at: "_Places", i: int, j: int, value: float) -> None:
        tip = f"{self.y_names[i]}\n{self.x_names[j]}: {self._words(value)}"
        x, y = at.x(j), at.y(i)
        if self.kind == "bubbles":
            if value > 0:
                largest = min(at.wide, at.tall) / 2 * (1.2 if at.tall > 12 else 1.05)
                with pen.coloured("heat"):
                    r = max(0.8, sqrt(value / self._largest) * largest)
                    pen.circle(x + at.wide / 2, y + at.tall / 2, r, "solid", tip, opacity=0.82)
            return
        numbered = self._numbered(at.wide, at.tall)
        share = self._share(value) * (DARKEST_UNDER_WORDS if numbered else 1)
        with pen.coloured("heat" if self.kind == "heat" else "up" if value >= 0 else "down"):
            size = max(at.wide - 1, 0.5), max(at.tall - 1, 0.5)
            pen.rect(x + 0.5, y + 0.5, *size, "solid", tip, min(share, 0.999))
        if numbered:
            pen.text(x + at.wide / 2, y + at.tall / 2 + 4, self._words(value), "small", "middle")

    def _bars(self, pen: Pen, at: "_Places") -> None:
        left, largest = at.x(len(self.x_names)) + 12, max(self.beside) or 1
        pen.text(left, at.top - 7, fitted(self.beside_label, at.bars, 11), "tick")
        for i, value in enumerate(self.beside):
            long = (at.bars - 12) * 0.66 * value / largest
            with pen.coloured("soft"):
                pen.rect(left, at.y(i) + at.tall * 0.2, max(long, 1), max(at.tall * 0.6, 1), "solid", opacity=0.6)
            if at.named:
                pen.text(left + long + 4, at.y(i) + at.tall / 2 + 4, written(value), "small")

    def _numbered(self, wide: float, tall: float) -> bool:
        return wide >= 29 and tall >= 15 and sum(map(len, self.values)) <= MOST_NUMBERS

    @cached_property
    def _largest(self) -> float:
        return max(abs(v) for row in self.values for v in row if v is not None) or 1.0

    @cached_property
    def _alike(self) -> bool:
        """Return whether values differ so little, against their size, that shades would make much of nothing."""
        low, high = self._ends
        return high - low < ALIKE * max(abs(low), abs(high))

    @cached_property
    def _ends(self) -> tuple[float, float]:
        found = [v for row in self.values for v in row if v is not None]
        return min(found), max(found)

    def _share(self, value: float) -> float:
        """Return how dark a cell is, from 0 to 1."""
        if self.kind == "about_zero":
            return abs(value) / self._largest
        low, high = self._ends
        return 0.06 + 0.94 * (value - low) / (high - low) if high > low and not self._alike else 0.5

    def _words(self, value: float | None) -> str:
        if value is None:
            return "–"
        if self.kind == "bubbles":
            return written(value)
        text = f"{value:{'+' if self.signed and value else ''}.{self.digits}f}"
        return text.replace("-", "−")
