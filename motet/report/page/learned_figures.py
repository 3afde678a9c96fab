"""What a method learned, as charts: figures_learned.json of a run, which may come from anybody and is checked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor, log10
from pathlib import Path
from typing import Any

from motet.io import json_models
from motet.io.files import read_own
from motet.io.text import printable
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
from motet.report.charts.grid import MOST_CELLS

FILE = "figures_learned.json"
CALIBRATION = "calibration"  # how the names of its diagrams begin
MOST_BYTES = 2**24
MOST_PICTURES = 64
MOST_SERIES = 40
MOST_POINTS = 4000
MOST_TEXT = 600
LARGEST = 1e12  # what an axis can show


@dataclass(frozen=True)
class FigureCharts:
    """Charts, and a sentence for each that cannot be drawn."""

    charts: tuple[Chart, ...] = ()
    problems: tuple[str, ...] = ()


def read_pictures(folder: Path, label: str, number: int, calibration: bool = False) -> FigureCharts:
    """The pictures of a run, those of calibration or the others; none where there is no file."""
    try:
        values = json_models.loads(read_own(folder / FILE, MOST_BYTES))
    except FileNotFoundError:
        return FigureCharts()
    except (OSError, ValueError):
        return FigureCharts(problems=(f"{FILE} cannot be read; accepted: what `motet run` wrote.",))
    if not isinstance(values, list):
        return FigureCharts(problems=(f"{FILE} is damaged; accepted: a list of pictures.",))
    charts: list[Chart] = []
    problems: list[str] = []
    for i, each in enumerate(values[:MOST_PICTURES], 1):
        try:
            if str(each["name"]).startswith(CALIBRATION) == calibration:
                charts.append(_chart(each, label, f"{number}-{i}"))
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError) as error:
            why = f"no {error}" if isinstance(error, KeyError) else str(error)[:120]
            problems.append(f"picture {i} of {FILE} is damaged ({printable(why)}).")
    if len(values) > MOST_PICTURES:
        problems.append(f"{len(values) - MOST_PICTURES} more pictures are not shown.")
    return FigureCharts(tuple(charts), tuple(problems))


def _chart(values: Any, label: str, number: str) -> Chart:
    kind = _text(values["kind"])
    if kind not in _KINDS:
        raise ValueError(f"kind is {kind[:20]!r}; accepted: {', '.join(_KINDS)}")
    title, see = _text(values.get("title") or values["name"]), _text(values.get("see") or "")
    series = values["series"]
    if not isinstance(series, list) or not 1 <= len(series) <= MOST_SERIES:
        raise ValueError(f"series are no list of 1 to {MOST_SERIES}")
    drawing = _KINDS[kind](values, series)
    if drawing.is_empty():
        raise ValueError("nothing in it")
    return Chart(f"learned-{number}", f"{label}: {title}", see, drawing)


def _heatmap(values: Mapping[str, Any], series: Sequence[Any]) -> Drawing:
    rows = [[_number_or_none(v) for v in row] for row in series[0]["values"]]
    columns = len(rows[0])
    if any(len(row) != columns for row in rows) or not 1 <= len(rows) * columns <= MOST_CELLS:
        raise ValueError(f"rows are not of one length, or more than {MOST_CELLS} cells")
    found = [v for row in rows for v in row if v is not None]
    both = bool(found) and min(found) < 0 < max(found)
    digits = _digits(max(found) - min(found)) if found else 0
    x, y = _axis(values, "x"), _axis(values, "y")
    return Grid(
        _ticks(values, "x", columns),
        _ticks(values, "y", len(rows)),
        rows,
        "about_zero" if both else "heat",
        x,
        y,
        digits,
    )


def _digits(reach: float) -> int:
    """So many behind the point that differences show, and numbers stay short."""
    return 2 if not reach else min(4, max(0, 1 - floor(log10(reach))))


def _lines(values: Mapping[str, Any], series: Sequence[Any]) -> Drawing:
    found = []
    given = (values.get("x") or {}).get("ticks")
    ticks = _numbers_of(given)
    names = _ticks(values, "x", len(series[0]["values"])) if given and not ticks else []
    for i, each in enumerate(series):
        raw = each["values"]
        if not isinstance(raw, list) or len(raw) > MOST_POINTS:
            raise ValueError(f"a line is no list of up to {MOST_POINTS} values")
        places = ticks if ticks and len(ticks) == len(raw) else list(map(float, range(len(raw))))
        points = [_point(v, x) for v, x in zip(raw, places, strict=True)]
        found.append(ChartSeries(_text(each.get("name") or ""), i, [p for p in points if p]))
    return LinesChart(_axis(values, "x") or "x", _axis(values, "y"), [s for s in found if s.points], x_names=names)


def _points(values: Mapping[str, Any], series: Sequence[Any]) -> Drawing:
    names = [_text(name) for name in values.get("groups") or ()]
    spots = []
    for each in series:
        for x, y, *rest in each["values"]:
            if x is None or y is None:
                continue
            group = rest[0] if rest else 0
            place = group if type(group) is int and group >= 0 else 0
            own = _text(each.get("name") or "")
            label = names[place] if place < len(names) else own or str(place)
            spots.append(Spot(label, place, _number(x), _number(y)))
    if len(spots) > MOST_POINTS:
        raise ValueError(f"more than {MOST_POINTS} points")
    return Plane(_axis(values, "x"), _axis(values, "y"), spots, grouped=True)


def _bars(values: Mapping[str, Any], series: Sequence[Any]) -> Drawing:
    columns = [[_number_or_none(v) for v in each["values"]] for each in series]
    count = len(columns[0])
    if any(len(column) != count for column in columns) or not 1 <= count <= 400:
        raise ValueError("bars are not of one number, or more than 400")
    names = _ticks(values, "x", count)
    titles = [_text(each.get("name") or "") for each in series]
    rows = []
    for i, name in enumerate(names):
        there = [column[i] for column in columns]
        rows.append(ChartRow(name, [_bar(value, j, len(columns)) for j, value in enumerate(there)]))
    keys = [Key(j, title, "mark" if j else "pale") for j, title in enumerate(titles)] if len(columns) > 1 else []
    x, y = _axis(values, "x"), _axis(values, "y") or titles[0]
    return RowsChart(f"{y} (rows: {x})" if x else y, titles, rows, keys, from_zero=True)


_KINDS = {"heatmap": _heatmap, "lines": _lines, "points": _points, "bars": _bars}


def _bar(value: float | None, place: int, count: int) -> Mark | None:
    """A bar; of several values the first one, pale, so that the others' marks are seen on it."""
    return None if value is None else Mark(value, place, "dot" if place else "pale" if count > 1 else "bar")


def _point(value: Any, x: float) -> tuple[float, float] | None:
    if isinstance(value, list):
        return _number(value[0]), _number(value[1])
    number = _number_or_none(value)
    return None if number is None else (x, number)


def _axis(values: Mapping[str, Any], name: str) -> str:
    return _text((values.get(name) or {}).get("label") or "")


def _ticks(values: Mapping[str, Any], name: str, count: int) -> list[str]:
    """Names for every place; numbers where there are none."""
    given = (values.get(name) or {}).get("ticks") or []
    words = [_text(tick if isinstance(tick, str) else str(tick)) for tick in given]
    return words if len(words) == count else [str(i) for i in range(count)]


def _numbers_of(ticks: Any) -> list[float] | None:
    if not isinstance(ticks, list) or not all(isinstance(t, int | float) and not isinstance(t, bool) for t in ticks):
        return None
    return [_number(t) for t in ticks]


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{str(value)[:20]!r} is no number")
    if abs(value) > LARGEST:
        raise ValueError(f"{value:.3g} is beyond {LARGEST:g}")
    return float(value)


def _number_or_none(value: Any) -> float | None:
    return None if value is None else _number(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{str(value)[:20]!r} is no text")
    return printable(value[:MOST_TEXT])
