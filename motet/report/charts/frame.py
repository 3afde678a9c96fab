"""The parts of every chart: its texts, scales, legend, and a frame with two axes.

A chart has a name, one sentence that says what to see, a drawing, and the same numbers in a table.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil, floor, log10
from typing import Protocol

from motet.report.charts.pen import Pen, dash_of, fitted, width_of

WIDE, NARROW = 860, 340  # pixels, for desktop and phone; a small chart has only the narrow drawing


@dataclass(frozen=True)
class ChartTable:
    """The numbers of a chart; the first column names the rows."""

    titles: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Key:
    """An entry of the legend: the series, its name, and the kind of its sample: line, mark, area, pale or hollow."""

    series: int | str
    label: str
    sample: str = "line"


class Drawing(Protocol):
    """The drawing of a chart, without its title and sentences."""

    def svg(self, width: int, page: bool, title: str, alt: str) -> str:
        """Return the drawing as SVG of this width, for the page or for print, where it includes the legend."""

    def legend_keys(self) -> list[Key]:
        """Return the legend; empty where marks are labelled themselves."""

    def table(self) -> ChartTable:
        """Return the numbers of the drawing as a table."""

    def is_empty(self) -> bool:
        """Return whether there is nothing to draw."""


@dataclass(frozen=True)
class Chart:
    """A drawing with its title and sentences. `name` is the name of its file."""

    name: str
    title: str
    see: str
    drawing: Drawing
    small: bool = False
    closed: bool = False  # on the page the reader opens it by a click
    notes: Sequence[str] = field(default=())


# -------- Scales and ticks


@dataclass(frozen=True)
class Scale:
    """A linear map from values to pixels; values outside are drawn at the border."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, value: float) -> float:
        inside = min(max(value, self.low), self.high)
        return self.start + (self.stop - self.start) * (inside - self.low) / (self.high - self.low)


def span(
    values: Iterable[float], least: float = 0.0, floor_at: float | None = None, ceil_at: float | None = None
) -> tuple[float, float]:
    """Return the range of an axis: all values with a margin, at least `least` long, within the given bounds."""
    found = list(values)
    low, high = (min(found), max(found)) if found else (0.0, 1.0)
    length = max(high - low, least, abs(high) * 1e-6, 1e-12)
    middle = (low + high) / 2
    low, high = min(low, middle - length / 2) - 0.06 * length, max(high, middle + length / 2) + 0.06 * length
    if floor_at is not None:
        low = max(low, floor_at)
    if ceil_at is not None:
        high = min(high, ceil_at)
    return (low, high) if high > low else (low, low + 1)


def round_ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Return about so many ticks, which are multiples of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / max(1, about)
    power = 10.0 ** floor(log10(rough))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= rough * 0.999)
    first, last = ceil(low / step - 1e-9), floor(high / step + 1e-9)
    decimals = max(0, 2 - floor(log10(step)))  # rounds away the binary error of numbers such as 0.1
    return [round(i * step, decimals) for i in range(first, last + 1)]


def written(value: float, signed: bool = False) -> str:
    """Return a number as short text, with a real minus sign."""
    size = abs(value)
    text = f"{value:,.0f}" if size >= 1000 else f"{value:.4g}"
    if "e" in text:
        text = f"{value:.1e}"
    if signed and value > 0:
        text = f"+{text}"
    return text.replace("-", "−")


# -------- The legend


LINE = 20.0
PALE = 0.38  # opacity of a bar whose value may be chance


def sample(pen: Pen, key: Key, x: float, y: float) -> None:
    """Draw the legend's sample of a series, 26 pixels wide, centred on y."""
    series = key.series if isinstance(key.series, int) else 0
    with pen.coloured(key.series):
        if key.sample in ("area", "pale"):
            pen.rect(x + 3, y - 6, 20, 12, "solid", opacity=PALE if key.sample == "pale" else 1)
        elif key.sample == "hollow":
            pen.circle(x + 13, y, 4.5, "hollow")
        else:
            if key.sample == "line":
                pen.path(f"M{x:.0f} {y:.0f}H{x + 26:.0f}", "stroke", dash_of(series))
            pen.mark(x + 13, y, series)


def swatch(key: Key) -> str:
    """Return the sample alone as SVG, for a button of the page that has the text beside it."""
    pen = Pen(page=True)
    sample(pen, key, 0, 7)
    return pen.svg(26, 14, "", "").replace('role="img" aria-label=". "', 'aria-hidden="true"')


def draw(pen: Pen, keys: Sequence[Key], left: float, top: float, width: float) -> float:
    """Draw the legend line by line from the top, and return its height."""
    x, y = left, top + LINE / 2
    for key in keys:
        needed = 34 + width_of(key.label) + 14
        if x > left and x + needed > width:
            x, y = left, y + LINE
        sample(pen, key, x, y)
        pen.text(x + 34, y + 4, key.label, "name")
        x += needed
    return y + LINE / 2 + 6 - top if keys else 0.0


# -------- The frame


@dataclass(frozen=True)
class ChartAxis:
    """An axis: its range, its label, and named ticks where it has no numbers."""

    low: float
    high: float
    label: str = ""
    names: Sequence[str] = ()  # ticks at 0, 1, 2, …
    whole: bool = False  # only whole numbers make sense, such as rounds

    def ticks(self, length: float, each: float) -> list[tuple[float, str]]:
        """Return places and texts of the ticks, as many as have room."""
        if self.names:
            step = max(1, -(-len(self.names) * int(each) // max(1, int(length))))
            return [(float(i), name) for i, name in enumerate(self.names) if i % step == 0]
        values = round_ticks(self.low, self.high, max(2, int(length / each)))
        return [(value, written(value)) for value in values if not self.whole or value == int(value)]


@dataclass(frozen=True)
class Framed:
    """The scales and borders of a frame that was drawn."""

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
    x: ChartAxis,
    y: ChartAxis,
    keys: Sequence[Key] = (),
    vertical_grid: bool = False,
    strip: float = 0.0,
) -> Framed:
    """Draw the frame and return where things go; `keys` is a legend inside the drawing, `strip` is left free."""
    top = 12.0 + draw(pen, keys, 8, 4, width - 8) + (14 if y.label else 0)
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
