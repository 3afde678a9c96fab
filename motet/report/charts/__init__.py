"""Charts as descriptions that draw themselves as SVG: for the page, where style sheets colour them, and for print."""

from motet.report.charts.chart import Chart, ChartTable, Drawing, Key
from motet.report.charts.grid import Grid
from motet.report.charts.lines import ChartSeries, LinesChart
from motet.report.charts.plane import Plane, Spot
from motet.report.charts.rows import ChartRow, Mark, RowsChart

__all__ = [
    "Chart",
    "ChartRow",
    "ChartSeries",
    "ChartTable",
    "Drawing",
    "Grid",
    "Key",
    "LinesChart",
    "Mark",
    "Plane",
    "RowsChart",
    "Spot",
]
