"""The sections about what each method learned, and about calibration: whether models are right as often as they are
sure."""

from dataclasses import replace
from statistics import fmean

from motet.metrics.names import GENERIC, PERSONAL, MetricName
from motet.report.charts import Chart, ChartRow, Key, Mark, RowsChart
from motet.report.page.blocks import Block, Charts, PageSection, Words
from motet.report.page.contents import Contender, PageContents
from motet.report.page.learned_figures import read_pictures

# -------- What each method learned


def learned(contents: PageContents) -> PageSection | None:
    """Return the section with the figures of every contender's first run; None if there are none."""
    blocks: list[Block] = []
    for contender in contents.contenders:
        found = read_pictures(contender.first.finished.folder, contender.label, contender.series + 1)
        if found.charts:
            blocks += [Charts([chart]) for chart in found.charts]
        if found.problems:
            blocks.append(Words([f"{contender.label}: {problem}" for problem in found.problems]))
    if not blocks:
        return None
    see = "What a method found out about its clients, such as who learns from whom, and the analyses asked for."
    return PageSection("learned", "What the methods learned", see, blocks, closed=True)


# -------- Calibration


NAMES = {"ece": "expected calibration error", "mce": "maximum calibration error"}
PLACES = ("split", "common", "weighted")


def calibration(contents: PageContents) -> PageSection | None:
    """Return the section with a chart for each calibration error that some run has; None if none has."""
    charts = [chart for metric, name in NAMES.items() if (chart := _chart(contents, metric, name))]
    diagrams: list[Chart] = []
    for c in contents.contenders:
        found = read_pictures(c.first.finished.folder, c.label, c.series + 1, calibration=True).charts
        diagrams += [replace(chart, small=True) for chart in found]
    if not charts and not diagrams:
        return None
    blocks = [*(Charts([chart]) for chart in charts), *([Charts(diagrams)] if diagrams else [])]
    see = "How far confidence and accuracy are apart; short is good: a model that says 90 % is right nine times in ten."
    return PageSection("calibration", "Calibration", see, blocks, closed=True)


def _chart(contents: PageContents, metric: str, name: str) -> Chart | None:
    rows = []
    for c in contents.contenders:
        marks = [_mark(c, PERSONAL, metric), _mark(c, GENERIC, metric)]
        if any(marks):
            rows.append(ChartRow(c.label, marks))
    if not rows:
        return None
    keys = [Key("up", "clients' own models", "area"), Key("soft", "one model for all", "hollow")]
    columns = ["clients' own models", "one model for all"]
    drawing = RowsChart(f"{name}, points of percent", columns, rows, keys, from_zero=True)
    run = [(row.marks[0].value, row.label) for row in rows if row.marks[0]]
    see = f"Best calibrated own models: {min(run)[1]}." if run else "No client's own model was measured."
    return Chart(metric, f"{name.capitalize()} ({metric.upper()})", see, drawing)


def _mark(contender: Contender, model: str, metric: str) -> Mark | None:
    at = contender.first.finished.headline
    figures = [replace(at, model=model, metric=metric, data=data) for data in PLACES]
    if model == GENERIC:
        figures.append(MetricName(GENERIC, "common", metric, "pooled"))
    values = next((found for figure in figures if (found := contender.figure(figure))), [])
    if not values:
        return None
    value = 100 * fmean(values)
    return Mark(value, "up", "bar") if model == PERSONAL else Mark(value, "soft", "hollow")
