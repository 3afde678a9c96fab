"""Charts of what a method learned, from figures_learned.json of a run; the file may be foreign."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import floor, log10
from pathlib import Path

from motet.errors import MotetError
from motet.io.files import read_own
from motet.io.text import printable
from motet.methods.base.learned_figure import Axis, LearnedFigure, Number, Tick, values_from_json
from motet.report.charts import (
    Chart,
    ChartRow,
    ChartSeries,
    Drawing,
    Grid,
    Key,
    LinesChart,
    Mark,
    Plane,
    RowsChart,
    Spot,
)

FILE = "figures_learned.json"
CALIBRATION = "calibration"  # the prefix of the names of calibration figures
MOST_BYTES = 2**24


@dataclass(frozen=True)
class FigureCharts:
    """Charts, and a sentence for each figure that cannot be drawn."""

    charts: tuple[Chart, ...] = ()
    problems: tuple[str, ...] = ()


def read_pictures(folder: Path, label: str, number: int, calibration: bool = False) -> FigureCharts:
    """Return the charts of a run's figures, those of calibration or the others; none if there is no file."""
    try:
        values = values_from_json(read_own(folder / FILE, MOST_BYTES), FILE)
    except FileNotFoundError:
        return FigureCharts()
    except OSError:
        return FigureCharts(problems=(f"{FILE} cannot be read; accepted: what `motet run` wrote.",))
    except MotetError as error:
        return FigureCharts(problems=(f"{error}.",))
    charts: list[Chart] = []
    problems: list[str] = []
    for i, each in enumerate(values, 1):
        try:
            figure = LearnedFigure.read(each)
        except MotetError as error:
            problems.append(f"picture {i} of {FILE} is damaged ({printable(error)}).")
            continue
        if figure.name.startswith(CALIBRATION) != calibration:
            continue
        drawing = _KINDS[figure.kind](figure)
        if drawing.is_empty():
            problems.append(f"picture {i} of {FILE} is damaged (nothing in it).")
        else:
            title = f"{label}: {printable(figure.title)}"
            charts.append(Chart(f"learned-{number}-{i}", title, printable(figure.see), drawing))
    return FigureCharts(tuple(charts), tuple(problems))


def _heatmap(figure: LearnedFigure) -> Drawing:
    rows = figure.series[0].rows
    found = [v for row in rows for v in row if v is not None]
    both = bool(found) and min(found) < 0 < max(found)
    digits = _digits(max(found) - min(found)) if found else 0
    kind, x, y = "about_zero" if both else "heat", printable(figure.x.label), printable(figure.y.label)
    return Grid(_names(figure.x), _names(figure.y), rows, kind, x, y, digits)


def _digits(reach: float) -> int:
    """Return how many decimals show the differences and keep numbers short."""
    return 2 if not reach else min(4, max(0, 1 - floor(log10(reach))))


def _lines(figure: LearnedFigure) -> Drawing:
    """Draw lines along numbers if all ticks are numbers, else along names."""
    numbers = [float(tick) for tick in figure.x.ticks if not isinstance(tick, str)]
    named = len(numbers) < len(figure.x.ticks)
    places = list(map(float, range(len(figure.x.ticks)))) if named else numbers
    lines = [
        ChartSeries(
            printable(each.name), i, [(x, float(v)) for v, x in zip(each.numbers, places, strict=True) if v is not None]
        )
        for i, each in enumerate(figure.series)
    ]
    x, y = printable(figure.x.label) or "x", printable(figure.y.label)
    return LinesChart(x, y, [line for line in lines if line.points], x_names=_names(figure.x) if named else [])


def _points(figure: LearnedFigure) -> Drawing:
    spots = [
        Spot(printable(figure.groups[group]), group, float(x), float(y))
        for x, y, group in figure.series[0].rows
        if x is not None and y is not None and isinstance(group, int)
    ]
    return Plane(printable(figure.x.label), printable(figure.y.label), spots, grouped=True)


def _bars(figure: LearnedFigure) -> Drawing:
    columns = [each.numbers for each in figure.series]
    titles = [printable(each.name) for each in figure.series]
    rows = [
        ChartRow(name, [_bar(value, j, len(columns)) for j, value in enumerate(values)])
        for name, values in zip(_names(figure.x), zip(*columns, strict=True), strict=True)
    ]
    keys = [Key(j, title, "mark" if j else "pale") for j, title in enumerate(titles)] if len(columns) > 1 else []
    x, y = printable(figure.x.label), printable(figure.y.label) or titles[0]
    return RowsChart(f"{y} (rows: {x})" if x else y, titles, rows, keys, from_zero=True)


_KINDS: dict[str, Callable[[LearnedFigure], Drawing]] = {
    "heatmap": _heatmap,
    "lines": _lines,
    "points": _points,
    "bars": _bars,
}


def _bar(value: Number, place: int, count: int) -> Mark | None:
    """Return the bar of a value; of several series the first is pale, so that the others' marks are seen on it."""
    return None if value is None else Mark(value, place, "dot" if place else "pale" if count > 1 else "bar")


def _names(axis: Axis) -> list[str]:
    ticks: Sequence[Tick] = axis.ticks
    return [printable(tick) for tick in ticks]
