"""Charts as descriptions that draw themselves as SVG: for the page, where style sheets colour them, and for print."""

from motet.report.charts.chart import Chart, Drawing, Key, Table
from motet.report.charts.grid import Grid
from motet.report.charts.lines import Lines, Series
from motet.report.charts.plane import Plane, Spot
from motet.report.charts.rows import Mark, Row, Rows

__all__ = [
    "Chart",
    "Drawing",
    "Grid",
    "Key",
    "Lines",
    "Mark",
    "Plane",
    "Row",
    "Rows",
    "Series",
    "Spot",
    "Table",
]
