"""Points in a plane with names and intervals; points without an x value stand in a strip at the side."""

from collections.abc import Sequence
from dataclasses import dataclass

from motet.report.charts.frame import ChartAxis, ChartTable, Framed, Key, frame, span, written
from motet.report.charts.pen import Pen, fitted, width_of

Interval = tuple[float, float]
MOST_NAMED = 30  # with more points, only legend and tooltip name them
FAR = 24.0  # pixels between a point and its name from which on a line joins them
ASIDE = 46  # pixels, the width of the strip for points without x


@dataclass(frozen=True)
class Spot:
    """One labelled point of the plane."""

    label: str
    series: int
    x: float | None
    y: float
    x_interval: Interval | None = None
    y_interval: Interval | None = None
    more: str = ""  # further lines of the tooltip


@dataclass(frozen=True)
class Plane:
    """Points in one frame; if `grouped`, they are coloured by group and have no names of their own."""

    x_label: str
    y_label: str
    spots: Sequence[Spot]
    aside: str = ""  # what a missing x value means
    least: float = 0.0
    ceiling: float | None = None
    grouped: bool = False

    def is_empty(self) -> bool:
        return not self.spots

    def legend_keys(self) -> list[Key]:
        if not self.grouped and len(self.spots) <= MOST_NAMED:
            return []
        return [Key(series, label, "mark") for series, label in {s.series: s.label for s in self.spots}.items()]

    def table(self) -> ChartTable:
        rows = [
            [s.label, "–" if s.x is None else _with(s.x, s.x_interval), _with(s.y, s.y_interval)] for s in self.spots
        ]
        return ChartTable(["", self.x_label, self.y_label], rows)

    def svg(self, width: int, page: bool, title: str, alt: str) -> str:
        pen = Pen(page)
        xs = [v for s in self.spots if s.x is not None for v in (s.x, *(s.x_interval or ()))]
        ys = [v for s in self.spots for v in (s.y, *(s.y_interval or ()))]
        x_axis = ChartAxis(*span(xs, self.least, ceil_at=self.ceiling), self.x_label)
        y_axis = ChartAxis(*span(ys, self.least, ceil_at=self.ceiling), self.y_label)
        tall = 340 if width > 400 else 280
        strip = ASIDE if any(s.x is None for s in self.spots) else 0
        keys = [] if page else self.legend_keys()
        placed = frame(pen, width, tall, x_axis, y_axis, keys, vertical_grid=True, strip=strip)
        if strip:
            _strip(pen, placed, self.aside)
        places = [(placed.left - ASIDE / 2 - 4 if s.x is None else placed.x(s.x), placed.y(s.y)) for s in self.spots]
        for spot, (x, y) in zip(self.spots, places, strict=True):
            with pen.coloured(spot.series, spot.series):
                self._spot(pen, placed, spot, x, y)
        if not self.legend_keys():
            _names(pen, [s.label for s in self.spots], places, width - 6, (placed.top, placed.bottom))
        return pen.svg(width, placed.height, title, alt)

    def _spot(self, pen: Pen, placed: Framed, spot: Spot, x: float, y: float) -> None:
        if spot.x_interval:
            pen.path(f"M{placed.x(spot.x_interval[0]):.1f} {y:.1f}H{placed.x(spot.x_interval[1]):.1f}", "whisker")
        if spot.y_interval:
            pen.path(f"M{x:.1f} {placed.y(spot.y_interval[0]):.1f}V{placed.y(spot.y_interval[1]):.1f}", "whisker")
        lines = [spot.label]
        if spot.x is not None:
            lines.append(f"{self.x_label}: {_with(spot.x, spot.x_interval)}")
        lines.append(f"{self.y_label}: {_with(spot.y, spot.y_interval)}")
        tip = "\n".join([*lines, *([spot.more] if spot.more else [])])
        pen.mark(x, y, spot.series, tip=tip, size=3.2 if self.grouped else 5.5)


def _strip(pen: Pen, placed: Framed, aside: str) -> None:
    """Draw the strip at the left side, with its meaning below it."""
    pen.rect(placed.left - ASIDE, placed.top, ASIDE - 8, placed.bottom - placed.top, "ground")
    for i, word in enumerate(aside.split(" ")[:3]):
        middle = placed.left - ASIDE / 2 - 4
        pen.text(middle, placed.bottom + 14 + 11 * i, fitted(word, ASIDE + 10, 10), "small", "middle")


def _names(
    pen: Pen, labels: Sequence[str], places: Sequence[tuple[float, float]], right: float, within: Interval
) -> None:
    """Write each name as near to its point as it covers no other name and no point; a line leads to a far one."""
    taken = [(x - 7, y - 7, x + 7, y + 7) for x, y in places]
    crowded = sorted(range(len(places)), key=lambda i: -sum(_near(places[i], other) for other in places))
    for i in reversed(crowded):  # who stands alone has its name beside it; the others find what is free
        x, y = places[i]
        text = fitted(labels[i], 150)
        w, h = 1.1 * width_of(text), 13.0  # about, and rather too wide
        boxes = [(a, b, a + w, b + h) for a, b in _around(x, y, w, h)]
        fits = [box for box in boxes if box[0] >= 2 and box[2] <= right and within[0] - 8 <= box[1] <= within[1] - h]
        free = (box for box in fits if not any(_overlap(box, other) for other in taken))
        best = next(free, None) or min(fits or boxes[:1], key=lambda box: sum(_overlap(box, o) for o in taken))
        taken.append(best)
        nearest = min(max(x, best[0]), best[2]), min(max(y, best[1]), best[3])
        if abs(nearest[0] - x) + abs(nearest[1] - y) > FAR:
            pen.line(x, y, *nearest, "axis")
        pen.text(best[0], best[1] + 11, text, "halo")


def _near(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return abs(one[0] - other[0]) < 80 and abs(one[1] - other[1]) < 30


def _around(x: float, y: float, w: float, h: float) -> list[tuple[float, float]]:
    """Return places for a name about a point, the nearest first."""
    found = [(x + 10, y - 6), (x - 10 - w, y - 6), (x - w / 2, y - 22), (x - w / 2, y + 9)]
    for far in range(1, 12):
        down = 14.0 * far
        for dy in (-down, down):
            for dx in (10 + 4 * far, -10 - 4 * far - w, -w / 2):
                found.append((x + dx, y - h / 2 + dy))
    return found


def _overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> float:
    return max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1]))


def _with(value: float, interval: Interval | None) -> str:
    text = _short(value)
    return f"{text} ({_short(interval[0])} to {_short(interval[1])})" if interval else text


def _short(value: float) -> str:
    return f"{value:.1f}".replace("-", "−") if abs(value) >= 10 else written(value)
