"""Charts: descriptions that draw themselves as SVG, for the page (coloured by its style sheet) and for print.

`frame.py` has what every chart consists of (`Chart`, axes, legend), `pen.py` writes the SVG and has the colours, and
`lines.py`, `rows.py`, `plane.py` and `grid.py` are one kind of chart each. May import io.text alone. Start reading in
`frame.py`, then `lines.py`.
"""

from motet.report.charts.frame import Chart, ChartTable, Drawing, Key
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
