"""The section about cost: bytes and seconds, and the main figure by megabytes."""

from dataclasses import replace
from itertools import accumulate
from statistics import fmean

from motet.metrics.names import PERSONAL
from motet.metrics.wording import NOTHING, written
from motet.report.charts import Chart, ChartRow, ChartSeries, LinesChart, Mark, RowsChart
from motet.report.page.blocks import Block, Cell, Charts, PageSection, Sheet
from motet.report.page.contents import Contender, PageContents, ReportedRun

NEXT_TO_NOTHING = 0.01  # methods that send less than this share of the others' bytes get no line


def cost(contents: PageContents) -> PageSection:
    """Return the section: totals of every method, then what accuracy they buy."""
    unit, later = contents.unit, list[Block]()
    blocks: list[Block] = [_sheet(contents)]
    every = [each for contender in contents.contenders if (each := _by_megabytes(contender))]
    most = max((each.points[-1][0] for each in every), default=0.0)
    series = [each for each in every if each.points[-1][0] > NEXT_TO_NOTHING * most]
    lines = LinesChart(
        "megabytes sent so far",
        f"clients' own models, {unit.title}",
        series,
        unit.ceiling,
        least=unit.least(0.05),
        shared=False,
    )
    if not lines.is_empty():
        said = unit.metric.said
        up = "up" if unit.metric.higher_is_better else "down"
        see = f"Further left and {up} is better: the same {said} for fewer bytes."
        title = f"{said[0].upper()}{said[1:]} by megabytes"
        later.append(Charts([Chart("accuracy-by-bytes", title, see, lines, closed=True)]))
    if len(contents.contenders) > 1:
        blocks.append(
            Charts([chart for chart in (_bytes(contents), _seconds(contents)) if not chart.drawing.is_empty()])
        )
    blocks += later
    see = "Bytes are counted as they travel, down and up, over all clients of a round; seconds are of this machine."
    return PageSection("cost", "Bytes and seconds", see, blocks)


def _sent(run: ReportedRun) -> list[tuple[int, float]] | None:
    """Return rounds and megabytes sent up to each; None if the method sends nothing."""
    rows = [row for row in run.rounds if row.get("round")]
    counts = [(row.get("bytes_down"), row.get("bytes_up")) for row in rows]
    if not rows or any(a is None or b is None for a, b in counts):
        return None
    sums = accumulate((a + b) / 1e6 for a, b in counts if a is not None and b is not None)
    return [(row["round"], total) for row, total in zip(rows, sums, strict=True)]


def _total(contender: Contender) -> float | None:
    sums = [sent[-1][1] for run in contender.runs if (sent := _sent(run))]
    return fmean(sums) if sums else None


def _by_megabytes(contender: Contender) -> ChartSeries | None:
    """Return the line of the first seed: others differ little in what they send."""
    sent = _sent(contender.first)
    if not sent or not sent[-1][1]:
        return None
    curve = contender.first.curve(replace(contender.first.finished.headline, model=PERSONAL))
    points = [(total, curve[round]) for round, total in sent if round in curve]
    return ChartSeries(contender.label, contender.series, points) if points else None


def _bytes(contents: PageContents) -> Chart:
    rows = []
    for c in contents.contenders:
        if (sent := c.bytes_per_round) is not None:
            rows.append(ChartRow(c.label, [Mark(sent / 1e6, c.series, "bar")]))
    drawing = RowsChart("MB per round", ["MB per round"], rows, from_zero=True, told=True)
    return Chart("bytes", "Megabytes per round", "Short bars send little.", drawing, small=True)


def _seconds(contents: PageContents) -> Chart:
    rows = [ChartRow(c.label, [Mark(_mean_seconds(c), c.series, "bar")]) for c in contents.contenders]
    drawing = RowsChart("seconds of a run", ["seconds"], rows, from_zero=True, told=True)
    return Chart("seconds", "Seconds per run", "Short bars are fast.", drawing, small=True)


def _mean_seconds(contender: Contender) -> float:
    return fmean(float(run.finished.summary.seconds) for run in contender.runs)


def _sheet(contents: PageContents) -> Sheet:
    rows = []
    metric = contents.unit.metric
    for c in contents.contenders:
        own = fmean(c.headline()) if c.headline() else None
        rows.append(
            [
                Cell(c.label, c.label.lower(), c is contents.focus),
                _cell(_total(c), 2),
                _cell(_mean_seconds(c), 1),
                Cell(written(own, metric), own),
            ]
        )
    titles = ["method", "MB in all rounds", "seconds of a run", f"own models, {contents.unit.title}"]
    return Sheet("Cost of every method", titles, rows, [c.series for c in contents.contenders])


def _cell(value: float | None, digits: int) -> Cell:
    return Cell(NOTHING if value is None else f"{value:,.{digits}f}", value)
