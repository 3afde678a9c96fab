"""Lines with bands in one frame, over the same places of the axis or each line over its own."""

from collections.abc import Sequence
from dataclasses import dataclass

from motet.report.charts.frame import ChartAxis, ChartTable, Framed, Key, frame, span, written
from motet.report.charts.pen import Pen, dash_of, number

MOST_MARKS = 7  # marks of a line, enough to recognize their shape
MOST_ROWS = 25  # rows of a line in the table, where lines have different x values


@dataclass(frozen=True)
class ChartSeries:
    """One line; `low` and `high` are the edges of its band, if it has one."""

    label: str
    series: int
    points: Sequence[tuple[float, float]]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    dotted: bool = False  # belongs to the line before it: the same colour, thin dots, no marks


@dataclass(frozen=True)
class LinesChart:
    """A drawing of several lines in one frame."""

    x_label: str
    y_label: str
    series: Sequence[ChartSeries]
    ceiling: float | None = None
    floor: float | None = None
    least: float = 0.0  # the y axis spans at least so much, so that small differences look small
    shared: bool = True  # whether all lines have the same x values
    height: int = 280
    x_names: Sequence[str] = ()  # instead of numbers, at 0, 1, 2, …
    fixed: tuple[float, float] | None = None  # the ends of the y axis, where several charts share them

    def is_empty(self) -> bool:
        return not any(each.points for each in self.series)

    def legend_keys(self) -> list[Key]:
        told_apart = [each for each in self.series if not each.dotted]
        return [Key(each.series, each.label) for each in told_apart] if len(told_apart) > 1 else []

    def table(self) -> ChartTable:
        if self.shared:
            found = [dict(each.points) for each in self.series]
            xs = sorted({x for each in found for x in each})
            rows = [[self._place(x), *(_cell(each.get(x)) for each in found)] for x in xs]
            return ChartTable([self.x_label, *(each.label for each in self.series)], rows)
        thinned = [(each.label, point) for each in self.series for point in _thinned(each.points, MOST_ROWS)]
        rows = [[label, written(x), _cell(y)] for label, (x, y) in thinned]
        return ChartTable(["", self.x_label, self.y_label], rows)

    def svg(self, width: int, page: bool, title: str, alt: str) -> str:
        pen = Pen(page)
        xs = [x for each in self.series for x, _ in each.points]
        ys = [y for each in self.series for y in (*(y for _, y in each.points), *each.low, *each.high)]
        low, high = min(xs), max(xs)
        whole = all(x == int(x) for x in xs)
        x_axis = ChartAxis(low, high if high > low else low + 1, self.x_label, self.x_names, whole)
        y_axis = ChartAxis(*(self.fixed or span(ys, self.least, self.floor, self.ceiling)), self.y_label)
        tall = self.height if width > 400 else min(self.height, 230)
        placed = frame(pen, width, tall, x_axis, y_axis, [] if page else self.legend_keys())
        for each in self.series:
            with pen.coloured(each.series, each.series):
                _band(pen, placed, each)
                places = [(placed.x(x), placed.y(y)) for x, y in each.points]
                pen.path(_polyline(places), "stroke", "1.5 3" if each.dotted else dash_of(each.series))
                for at in [] if each.dotted else _thinned(places, MOST_MARKS):
                    pen.mark(*at, each.series, size=3.6)
                if not self.shared:
                    self._spots(pen, placed, each)
        if self.shared:
            self._hits(pen, placed)
        return pen.svg(width, placed.height, title, alt)

    def _place(self, x: float) -> str:
        return self.x_names[int(x)] if self.x_names else written(x)

    def _hits(self, pen: Pen, placed: Framed) -> None:
        """Draw an invisible strip for every x value, whose tooltip has the values of all lines."""
        if not pen.page:
            return
        found = [(each, dict(each.points)) for each in self.series]
        xs = sorted({x for _, points in found for x in points})
        for i, x in enumerate(xs):
            start = placed.x((xs[i - 1] + x) / 2) if i else placed.left
            stop = placed.x((x + xs[i + 1]) / 2) if i + 1 < len(xs) else placed.right
            there = sorted(((points[x], each.label) for each, points in found if x in points), reverse=True)
            tip = "\n".join([f"{self.x_label} {self._place(x)}", *(f"{label}: {_cell(y)}" for y, label in there)])
            pen.rect(start, placed.top, max(stop - start, 1), placed.bottom - placed.top, "hit", tip)

    def _spots(self, pen: Pen, placed: Framed, each: ChartSeries) -> None:
        for x, y in _thinned(each.points, MOST_ROWS):
            tip = f"{each.label}\n{self.x_label}: {written(x)}\n{self.y_label}: {_cell(y)}"
            pen.circle(placed.x(x), placed.y(y), 7, "hit", tip)


def _band(pen: Pen, placed: Framed, each: ChartSeries) -> None:
    if len(each.low) != len(each.points) or len(each.high) != len(each.points) or len(each.points) < 2:
        return
    xs = [x for x, _ in each.points]
    upper = [(placed.x(x), placed.y(y)) for x, y in zip(xs, each.high, strict=True)]
    lower = [(placed.x(x), placed.y(y)) for x, y in zip(xs, each.low, strict=True)]
    pen.path(_polyline([*upper, *reversed(lower)]) + "Z", "faint")


def _polyline(places: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{number(x)} {number(y)}" for x, y in places)


def _thinned(points: Sequence[tuple[float, float]], most: int) -> list[tuple[float, float]]:
    """Return at most so many points, evenly spaced, always with the last one."""
    if len(points) <= most:
        return list(points)
    return [points[round(i * (len(points) - 1) / (most - 1))] for i in range(most)]


def _cell(value: float | None) -> str:
    return "–" if value is None else written(round(value, 3)) if abs(value) < 10 else f"{value:.1f}"
