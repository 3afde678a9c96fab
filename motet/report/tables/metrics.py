"""Figures of any metric as a table: a row for each metric, model and kind of data, a column for each statistic."""

from collections.abc import Mapping

from rich.console import Group, RenderableType
from rich.text import Text

from motet.io.text import printable
from motet.metrics.names import MetricName
from motet.metrics.wording import NOTHING
from motet.report.tables.layout import Packed, Prose

COLUMNS = {
    "pooled": "pooled",
    "mean": "mean",
    "by_samples": "by\nsamples",
    "std": "std",
    "minimum": "smallest",
    "worst_tenth": "worst\ntenth",
}
HURT = "clients\nthat lose"


def measured_table(figures: Mapping[str, float]) -> Group:
    """Return a table of figures of models, followed by other numbers with their names."""
    rows: dict[tuple[str, str, str], dict[str, float]] = {}
    others = {}
    for name, value in figures.items():
        figure = MetricName.read(name)
        if figure is None or not figure.statistic or figure.among:
            others[name] = value
        else:
            rows.setdefault((figure.metric, figure.model, figure.data), {})[figure.statistic] = value
    order = {metric: i for i, metric in reversed(list(enumerate(metric for metric, _, _ in rows)))}
    rows = dict(sorted(rows.items(), key=lambda row: order[row[0][0]]))
    there = [statistic for statistic in COLUMNS if any(statistic in found for found in rows.values())]
    titles = [COLUMNS[statistic] for statistic in there]
    cells = [[_number(found.get(statistic)) for statistic in there] for found in rows.values()]
    if any("hurt_clients" in found for found in rows.values()):
        titles.append(HURT)
        cells = [[*row, _hurt(found)] for row, found in zip(cells, rows.values(), strict=True)]
    shown: list[RenderableType] = []
    if rows:
        labels = [[printable(word) for word in key] for key in rows]
        note = "A row's figures are named MODEL.DATA.METRIC.STATISTIC, as --json has them; smallest is `minimum`."
        shown = [Packed(["metric", "model", "data"], labels, titles, cells), Text(), Prose(note, "dim")]
    return Group(*shown, *(Text(printable(f"{name}: {_number(value)}")) for name, value in others.items()))


def _number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.4g}"


def _hurt(found: Mapping[str, float]) -> str:
    if "hurt_clients" not in found:
        return NOTHING
    return f"{found['hurt_clients']:g} of {found['compared_clients']:g}"
