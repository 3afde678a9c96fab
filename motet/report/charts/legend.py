"""The legend of a drawing: inside it in print, as buttons beside it on the page."""

from collections.abc import Sequence

from motet.report.charts.chart import Key
from motet.report.charts.ink import dash_of
from motet.report.charts.pen import Pen, width_of

LINE = 20.0
PALE = 0.38  # how solid a bar is that may be chance


def sample(pen: Pen, key: Key, x: float, y: float) -> None:
    """What a series looks like, 26 wide about a middle line."""
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
    """The sample alone, for a button of the page; its words stand beside it."""
    pen = Pen(page=True)
    sample(pen, key, 0, 7)
    return pen.svg(26, 14, "", "").replace('role="img" aria-label=". "', 'aria-hidden="true"')


def draw(pen: Pen, keys: Sequence[Key], left: float, top: float, width: float) -> float:
    """Line by line from the top; the height that it took."""
    x, y = left, top + LINE / 2
    for key in keys:
        needed = 34 + width_of(key.label) + 14
        if x > left and x + needed > width:
            x, y = left, y + LINE
        sample(pen, key, x, y)
        pen.text(x + 34, y + 4, key.label, "name")
        x += needed
    return y + LINE / 2 + 6 - top if keys else 0.0
