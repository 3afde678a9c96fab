"""The frame of a chart with two axes: grid, ticks, titles of axes, and the scales inside."""

from collections.abc import Sequence
from dataclasses import dataclass

from motet.report.charts import legend
from motet.report.charts.chart import Key
from motet.report.charts.pen import Pen, fitted, width_of
from motet.report.charts.scales import Scale, round_ticks, written


@dataclass(frozen=True)
class Axis:
    """From where to where, what it is called, and named ticks where it has no numbers."""

    low: float
    high: float
    label: str = ""
    names: Sequence[str] = ()  # at 0, 1, 2, …
    whole: bool = False  # nothing is between whole numbers, such as rounds

    def ticks(self, length: float, each: float) -> list[tuple[float, str]]:
        """Places and words, so many that each has its room."""
        if self.names:
            step = max(1, -(-len(self.names) * int(each) // max(1, int(length))))
            return [(float(i), name) for i, name in enumerate(self.names) if i % step == 0]
        values = round_ticks(self.low, self.high, max(2, int(length / each)))
        return [(value, written(value)) for value in values if not self.whole or value == int(value)]


@dataclass(frozen=True)
class Framed:
    """Where things are in a frame."""

    x: Scale
    y: Scale
    left: float
    right: float
    top: float
    bottom: float
    height: float


def frame(
    pen: Pen,
    width: float,
    plot_height: float,
    x: Axis,
    y: Axis,
    keys: Sequence[Key] = (),
    vertical_grid: bool = False,
    strip: float = 0.0,
) -> Framed:
    """Draw it and say where things go; `keys` where the legend is part of the drawing, `strip` is left free."""
    top = 12.0 + legend.draw(pen, keys, 8, 4, width - 8) + (14 if y.label else 0)
    bottom = top + plot_height
    rows = y.ticks(plot_height, 34)
    left = min(width * 0.34, 14 + max((width_of(text, 11) for _, text in rows), default=0))
    outer, left, right = left, left + strip, width - 14
    placed = Framed(
        Scale(x.low, x.high, left, right), Scale(y.low, y.high, bottom, top), left, right, top, bottom, bottom + 44
    )
    for value, text in rows:
        at = placed.y(value)
        pen.line(outer, at, right, at, "grid")
        pen.text(outer - 7, at + 4, fitted(text, outer - 8, 11), "tick", "end")
    columns = x.ticks(right - left, 64 if not x.names else 46)
    room = (right - left) / max(1, len(columns))
    for value, text in columns:
        at = placed.x(value)
        if vertical_grid:
            pen.line(at, top, at, bottom, "grid")
        pen.line(at, bottom, at, bottom + 4, "axis")
        pen.text(at, bottom + 17, fitted(text, max(room, 20), 11), "tick", "middle")
    pen.line(left, bottom, right, bottom, "axis")
    if x.label:
        pen.text((left + right) / 2, bottom + 36, fitted(x.label, right - left), "name", "middle")
    if y.label:
        pen.text(8, top - 12, fitted(y.label, width - 16), "name")
    return placed
