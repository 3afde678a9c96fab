"""A grid of cells by two sets of names: darker for more, two colours about zero, or bubbles; bars beside its rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt

from motet.report.charts.chart import Key, Table
from motet.report.charts.pen import Pen, fitted, width_of
from motet.report.charts.scales import written

MOST_CELLS = 12_000
MOST_NUMBERS = 420  # cells with their number in them
DARKEST_UNDER_WORDS = 0.55  # so that a number on a cell can be read


@dataclass(frozen=True)
class Grid:
    """Cells in one frame; `values[row][column]`, None where there is none."""

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
        if self.kind != "about_zero":
            return []
        return [Key("up", "above zero: better", "area"), Key("down", "below zero: worse", "area")]

    def table(self) -> Table:
        rows = [[name, *map(self._words, row)] for name, row in zip(self.y_names, self.values, strict=True)]
        titles = [self.y_label, *self.x_names]
        if self.beside:
            titles.append(self.beside_label)
            rows = [[*row, written(n)] for row, n in zip(rows, self.beside, strict=True)]
        return Table(titles, rows)

    def svg(self, width: int, page: bool, title: str, alt: str) -> str:
        pen = Pen(page)
        rows, columns = len(self.y_names), max(1, len(self.x_names))
        tall = 24.0 if rows <= 24 else 16.0 if rows <= 45 else max(6.0, 900 / rows)
        size = 12 if tall >= 20 else 10
        named = tall >= 11
        left = min(max(width_of(name, size) for name in self.y_names) + 14, width * 0.34) if named else 14.0
        bars = (110 if width > 400 else 56) if self.beside else 0
        wide = min((width - left - 12 - bars) / columns, 64.0)
        lean = max((width_of(name, 11) for name in self.x_names), default=0) > wide - 4
        head = (
            min(max((width_of(fitted(n, 92, 11), 11) for n in self.x_names), default=0), 92) * 0.77 + 12 if lean else 16
        )
        top = (18.0 if self.x_label or self.beside else 4.0) + head + 4
        if self.x_label:
            pen.text(left, 12, fitted(f"{self.x_label} →", width - left), "tick")
        if self.y_label and named:
            pen.text(left - 6, top - 7, fitted(f"{self.y_label} ↓", left - 8, 11), "tick", "end")
        if self.beside:
            pen.text(left + wide * columns + 12, top - 8, fitted(self.beside_label, bars, 11), "tick")
        step = max(1, int(15 / wide) + 1) if lean and wide < 15 else 1
        for j, name in enumerate(self.x_names):
            if j % step == 0:
                at = left + wide * (j + 0.5)
                if lean:
                    pen.text(at + 3, top - 5, fitted(name, 92, 11), "tick", turn=-50)
                else:
                    pen.text(at, top - 7, name, "tick", "middle")
        for i, name in enumerate(self.y_names):
            y = top + tall * i
            if named:
                pen.text(
                    left - 6, y + tall / 2 + 4, fitted(name, left - 8, size), "name" if size == 12 else "small", "end"
                )
            self._cells(pen, i, left, y, wide, tall)
        if self.beside:
            self._bars(pen, left + wide * columns + 12, top, bars - 12, tall)
        return pen.svg(width, top + tall * rows + 10, title, alt)

    def _cells(self, pen: Pen, i: int, left: float, y: float, wide: float, tall: float) -> None:
        for j, value in enumerate(self.values[i]):
            if value is None:
                continue
            tip = f"{self.y_names[i]}\n{self.x_names[j]}: {self._words(value)}"
            x = left + wide * j
            if self.kind == "bubbles":
                if value > 0:
                    r = max(
                        0.8, sqrt(value / self._largest) * (min(wide, tall) / 2 - 0.5) * (1.25 if tall > 12 else 1.1)
                    )
                    with pen.coloured("heat"):
                        pen.circle(x + wide / 2, y + tall / 2, r, "solid", tip, opacity=0.82)
                continue
            numbered = self._numbered(wide, tall)
            share = self._share(value) * (DARKEST_UNDER_WORDS if numbered else 1)
            with pen.coloured("heat" if self.kind == "heat" else "up" if value >= 0 else "down"):
                pen.rect(x + 0.5, y + 0.5, max(wide - 1, 0.5), max(tall - 1, 0.5), "solid", tip, min(share, 0.999))
            if numbered:
                pen.text(x + wide / 2, y + tall / 2 + 4, self._words(value), "small", "middle")

    def _bars(self, pen: Pen, left: float, top: float, width: float, tall: float) -> None:
        largest = max(self.beside) or 1
        for i, value in enumerate(self.beside):
            long = width * 0.66 * value / largest
            y = top + tall * i
            with pen.coloured("soft"):
                pen.rect(left, y + tall * 0.2, max(long, 1), max(tall * 0.6, 1), "solid", opacity=0.6)
            if tall >= 11:
                pen.text(left + long + 4, y + tall / 2 + 4, written(value), "small")

    def _numbered(self, wide: float, tall: float) -> bool:
        return wide >= 29 and tall >= 15 and sum(map(len, self.values)) <= MOST_NUMBERS

    @cached_property
    def _largest(self) -> float:
        return max(abs(v) for row in self.values for v in row if v is not None) or 1.0

    @cached_property
    def _ends(self) -> tuple[float, float]:
        found = [v for row in self.values for v in row if v is not None]
        return min(found), max(found)

    def _share(self, value: float) -> float:
        """How dark a cell is, from 0 to 1."""
        if self.kind == "about_zero":
            return abs(value) / self._largest
        low, high = self._ends
        return 0.06 + 0.94 * (value - low) / (high - low) if high > low else 0.5

    def _words(self, value: float | None) -> str:
        if value is None:
            return "–"
        if self.kind == "bubbles":
            return written(value)
        text = f"{value:{'+' if self.signed and value else ''}.{self.digits}f}"
        return text.replace("-", "−")
