"""The section about the main figure over rounds: all contenders in one chart, with the spread over seeds, and each in
its own, with that over clients."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from motet.metrics.names import GENERIC, PERSONAL, MetricName
from motet.report.charts import Chart, ChartSeries, LinesChart
from motet.report.page.blocks import Block, Charts, PageSection
from motet.report.page.contents import Contender, PageContents, Unit

MOST_SMALL = 12  # contenders that get a chart of their own
OWN_MODELS = "clients' own models"
ONE_MODEL = "one model for all"


def over_rounds(contents: PageContents) -> PageSection | None:
    """Return the section with two large charts and the small ones; None if no run has a curve."""
    if len(contents.contenders) == 1:
        return _of_one(contents.contenders[0])
    blocks: list[Block] = []
    unit = contents.unit
    for model, name, label in ((PERSONAL, "personal", OWN_MODELS), (GENERIC, "generic", ONE_MODEL)):
        series = [each for contender in contents.contenders if (each := _over_seeds(contender, model))]
        axis = f"{label}, {unit.title}"
        drawing = LinesChart("round", axis, series, ceiling=unit.ceiling, least=unit.least(0.05))
        if not drawing.is_empty():
            blocks.append(Charts([Chart(f"rounds-{name}", _title(model), _see(series, unit), drawing)]))
    found = [(c, kin) for c in contents.contenders[:MOST_SMALL] if (kin := _over_clients(c))]
    if found:
        ends = _ends([one for _, each in found for one in each], unit)
        blocks.append(Charts([_small(c, each, ends) for c, each in found]))
    several = any(len(c.runs) > 1 for c in contents.contenders)
    band = " The bands go from the worst seed to the best." if several else ""
    see = f"How fast each method learns, and whether it still climbs at the end.{band}"
    if found:
        see += " In the small charts the band is one standard deviation over clients; dots are their worst tenth."
    return PageSection("rounds", _heading(unit), see, blocks, closed=True) if blocks else None


def _heading(unit: Unit) -> str:
    said = unit.metric.said
    return f"{said[0].upper()}{said[1:]} over rounds"


def _ends(series: Sequence[ChartSeries], unit: Unit) -> tuple[float, float]:
    """Return the ends of the axis that all small charts share."""
    values = [y for one in series for y in (*one.low, *one.high, *(y for _, y in one.points))]
    step = unit.least(0.1) or (max(values) - min(values)) / 10 or 1.0
    high = unit.ceiling or step * (max(values) // step + 1)
    return min(step * (min(values) // step), high - step), high  # where all values are the ceiling, there is room below


def _of_one(contender: Contender) -> PageSection | None:
    """Return the section for a single contender: both models in one chart, with the spread over clients."""
    own, one = _over_clients(contender), _over_seeds(contender, GENERIC)
    if not own:
        alone = _over_seeds(contender, PERSONAL)
        own = [replace(alone, label=OWN_MODELS)] if alone else []
    other = [replace(one, label=ONE_MODEL, series=contender.series + 1, low=(), high=())] if one else []
    unit = contender.first.unit
    drawing = LinesChart("round", unit.title, [*own, *other], ceiling=unit.ceiling, least=unit.least(0.05))
    if drawing.is_empty():
        return None
    ends = [f"{each.label} {unit.said(each.points[-1][1])}" for each in drawing.series]
    chart = Chart("rounds", "Both models over rounds", f"At the end: {', '.join(ends)}.", drawing)
    see = "How fast both learn. The band is one standard deviation over clients; dots are the worst tenth of them."
    return PageSection("rounds", _heading(unit), see, [Charts([chart])])


def _title(model: str) -> str:
    return "Clients' own models" if model == PERSONAL else "The one model for all"


def _figure(contender: Contender, model: str) -> MetricName:
    return replace(contender.first.finished.headline, model=model)


def _over_seeds(contender: Contender, model: str) -> ChartSeries | None:
    """Return the line of means over seeds in the rounds that all seeds have, with their range as band."""
    curves = [run.curve(_figure(contender, model)) for run in contender.runs]
    if not any(curves) and model == GENERIC:
        pooled = MetricName(GENERIC, "common", contender.first.finished.headline.metric, "pooled")
        curves = [run.curve(pooled) for run in contender.runs]
    curves = [curve for curve in curves if curve]
    if not curves:
        return None
    rounds = sorted(set.intersection(*(set(curve) for curve in curves)))
    values = [[curve[round] for curve in curves] for round in rounds]
    low, high = ([min(v) for v in values], [max(v) for v in values]) if len(curves) > 1 else ([], [])
    points = [(float(round), fmean(v)) for round, v in zip(rounds, values, strict=True)]
    return ChartSeries(contender.label, contender.series, points, low, high)


def _see(series: Sequence[ChartSeries], unit: Unit) -> str:
    ends = sorted(((each.points[-1][1], each.label) for each in series if each.points), reverse=True)
    if len(ends) == 1:
        return f"It ends at {unit.said(ends[0][0])}."
    (high, first), (low, last) = ends[0], ends[-1]
    return f"At the end {first} is highest with {unit.said(high)}, {last} lowest with {unit.said(low)}."


def _over_clients(contender: Contender) -> list[ChartSeries]:
    """Return lines of mean and spread over the clients of the first seed, and of the worst tenth."""
    run, figure = contender.first, _figure(contender, PERSONAL)
    mean, spread, worst = (run.curve(each) for each in (figure, figure.over("std"), figure.over("worst_tenth")))
    rounds = sorted(mean.keys() & spread.keys())
    if len(rounds) < 2:
        return []
    middle = ChartSeries(
        OWN_MODELS,
        contender.series,
        [(float(r), mean[r]) for r in rounds],
        [max(0.0, mean[r] - spread[r]) for r in rounds],
        [min(run.unit.ceiling or mean[r] + spread[r], mean[r] + spread[r]) for r in rounds],
    )
    tenth = [(float(r), worst[r]) for r in rounds if r in worst]
    return [middle, *([ChartSeries("worst tenth of clients", contender.series, tenth, dotted=True)] if tenth else [])]


def _small(contender: Contender, series: Sequence[ChartSeries], ends: tuple[float, float]) -> Chart:
    unit = contender.first.unit
    lines = LinesChart("round", f"own models, {unit.title}", series, height=170, fixed=ends)
    last = [f"{each.label} {unit.said(each.points[-1][1])}" for each in series]
    see = f"At the end: {', '.join(last)}."
    return Chart(f"spread-{contender.series + 1}", f"{contender.label}, over clients", see, lines, small=True)
