"""Named rows on one axis: bars from zero, dots with intervals, or pairs of dots."""

from collections.abc import Sequence
from dataclasses import dataclass

from motet.report.charts import frame
from motet.report.charts.frame import ChartTable, Key, Scale, round_ticks, span, written
from motet.report.charts.pen import Pen, fitted, width_of

NAMED = 60  # with more rows, each is too thin for its name


@dataclass(frozen=True)
class Mark:
    """A value in a row, in the colour of a series or a named colour; drawn as bar, pale (a bar that may be chance),
    dot or hollow."""

    value: float
    colour: int | str
    kind: str = "dot"
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class ChartRow:
    """A name and its marks, in the order of the columns of the table; None where there is no value."""

    label: str
    marks: Sequence[Mark | None]
    more: str = ""  # further lines of the tooltip


@dataclass(frozen=True)
class RowsChart:
    """A drawing of rows with marks or bars in one frame."""

    x_label: str
    columns: Sequence[str]  # what each mark of a row is
    rows: Sequence[ChartRow]
    legend: Sequence[Key] = ()
    from_zero: bool = False
    signed: bool = False
    joined: bool = False  # a line from the first mark to the last
    told: bool = False  # whether the last mark's value is written beside it
    least: float = 0.0
    ceiling: float | None = None

    def is_empty(self) -> bool:
        return not any(mark for row in self.rows for mark in row.marks)

    def legend_keys(self) -> list[Key]:
        return list(self.legend)

    def table(self) -> ChartTable:
        rows = [[row.label, *("–" if mark is None else self._words(mark) for mark in row.marks)] for row in self.rows]
        return ChartTable(["", *self.columns], rows)

    def svg(self, width: int, page: bool, title: str, alt: str) -> str:
        pen = Pen(page)
        tall, role, size = (24, "name", 12) if len(self.rows) <= 30 else (14, "small", 10)
        named = len(self.rows) <= NAMED
        tall = tall if named else 6
        top = 10 + frame.draw(pen, [] if page else self.legend, 8, 4, width - 8)
        bottom = top + tall * len(self.rows) + 4
        widest = max(width_of(row.label, size) for row in self.rows)
        left = min(widest + 14, width * 0.38) if named else 14.0
        told = max((width_of(self._value(m), 11) for m in self._last()), default=0) + 12 if self.told else 0
        low, high = self._span()
        x = Scale(low, high, left + 4, width - 12 - told)
        for value in round_ticks(low, high, max(2, int((x.stop - x.start) / 62))):
            role_of = "zero" if value == 0 and self.from_zero else "grid"
            pen.line(x(value), top, x(value), bottom, role_of)
            pen.text(x(value), bottom + 15, written(value, self.signed), "tick", "middle")
        pen.line(x.start, bottom, x.stop, bottom, "axis")
        label = fitted(self.x_label, width - 20)
        half = width_of(label) / 2 + 6
        pen.text(min(max((x.start + x.stop) / 2, half), width - half), bottom + 34, label, "name", "middle")
        for i, row in enumerate(self.rows):
            y = top + tall * (i + 0.5) + 2
            if named:
                pen.text(left - 4, y + size / 3, fitted(row.label, left - 8, size), role, "end")
            self._row(pen, row, x, y, tall)
        return pen.svg(width, bottom + 44, title, alt)

    def _row(self, pen: Pen, row: ChartRow, x: Scale, y: float, tall: float) -> None:
        marks = [mark for mark in row.marks if mark]
        small = tall < 10
        if self.joined and len(marks) > 1:
            with pen.coloured(marks[-1].colour):
                pen.path(f"M{x(marks[0].value):.1f} {y:.1f}H{x(marks[-1].value):.1f}", "stroke")
        for i, mark in enumerate(row.marks):
            if mark is None:
                continue
            toggled = i if len(self.legend) == len(self.columns) else None
            with pen.coloured(mark.colour, toggled):
                self._mark(pen, mark, x, y, tall, small)
        if self.told and marks:
            end = max(x(v) for mark in marks for v in (mark.value, mark.high) if v is not None)
            pen.text(end + 7, y + 4, self._value(marks[-1]), "tick")
        if pen.page and marks:
            told = [f"{name}: {self._words(mark)}" for name, mark in zip(self.columns, row.marks, strict=True) if mark]
            tip = "\n".join([row.label, *told, *([row.more] if row.more else [])])
            pen.rect(0, y - tall / 2, x.stop, tall, "hit", tip)

    def _mark(self, pen: Pen, mark: Mark, x: Scale, y: float, tall: float, small: bool) -> None:
        at = x(mark.value)
        if mark.kind in ("bar", "pale"):
            zero, thick, opacity = x(0), max(tall * 0.56, 2.5), 1 if mark.kind == "bar" else frame.PALE
            pen.rect(min(at, zero), y - thick / 2, max(abs(at - zero), 1), thick, "solid", opacity=opacity)
        if mark.low is not None and mark.high is not None:
            pen.path(f"M{x(mark.low):.1f} {y:.1f}H{x(mark.high):.1f}", "whisker")
        if mark.kind == "dot":
            pen.mark(at, y, mark.colour if isinstance(mark.colour, int) else 0, size=2.4 if small else 4.6)
        elif mark.kind == "hollow":
            pen.circle(at, y, 2.2 if small else 4.4, "hollow")

    def _span(self) -> tuple[float, float]:
        marks = [mark for row in self.rows for mark in row.marks if mark]
        values = [v for m in marks for v in (m.value, m.low, m.high) if v is not None]
        low, high = span([*values, *([0.0] if self.from_zero else [])], self.least, ceil_at=self.ceiling)
        return (0.0 if self.from_zero and min(values, default=0) >= 0 else low), high

    def _last(self) -> list[Mark]:
        return [[mark for mark in row.marks if mark][-1] for row in self.rows if any(row.marks)]

    def _value(self, mark: Mark) -> str:
        rounded = round(mark.value, 1) if abs(mark.value) >= 10 or self.signed else float(f"{mark.value:.3g}")
        return written(rounded, self.signed)

    def _words(self, mark: Mark) -> str:
        if mark.low is None or mark.high is None:
            return self._value(mark)
        low, high = (written(round(v, 2), self.signed) for v in (mark.low, mark.high))
        return f"{self._value(mark)} ({low} to {high})"
