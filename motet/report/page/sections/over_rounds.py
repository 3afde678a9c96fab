"""The section about accuracy over rounds: all contenders in one chart, with the spread over seeds, and each in its
own, with that over clients."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from motet.metrics.names import GENERIC, PERSONAL, MetricName
from motet.report.charts import Chart, ChartSeries, LinesChart
from motet.report.page.blocks import Block, Charts, PageSection
from motet.report.page.contents import Contender, PageContents

MOST_SMALL = 12  # contenders that get a chart of their own
OWN_MODELS = "clients' own models"
OWN, ONE = "clients' own models, accuracy in %", "one model for all, accuracy in %"


def over_rounds(contents: PageContents) -> PageSection | None:
    """Return the section with two large charts and the small ones; None if no run has a curve."""
    if len(contents.contenders) == 1:
        return _of_one(contents.contenders[0])
    blocks: list[Block] = []
    for model, name, label in ((PERSONAL, "personal", OWN), (GENERIC, "generic", ONE)):
        series = [each for contender in contents.contenders if (each := _over_seeds(contender, model))]
        drawing = LinesChart("round", label, series, ceiling=100.0, least=5.0)
        if not drawing.is_empty():
            blocks.append(Charts([Chart(f"rounds-{name}", _title(model), _see(series), drawing)]))
    found = [(c, kin) for c in contents.contenders[:MOST_SMALL] if (kin := _over_clients(c))]
    if found:
        low = min(y for _, each in found for one in each for y in (*one.low, *(y for _, y in one.points)))
        blocks.append(Charts([_small(c, each, 10 * (low // 10)) for c, each in found]))
    several = any(len(c.runs) > 1 for c in contents.contenders)
    band = " The bands go from the worst seed to the best." if several else ""
    see = f"How fast each method learns, and whether it still climbs at the end.{band}"
    if found:
        see += " In the small charts the band is one standard deviation over clients; dots are their worst tenth."
    return PageSection("rounds", "Accuracy over rounds", see, blocks) if blocks else None


def _of_one(contender: Contender) -> PageSection | None:
    """Return the section for a single contender: both models in one chart, with the spread over clients."""
    own, one = _over_clients(contender), _over_seeds(contender, GENERIC)
    if not own:
        alone = _over_seeds(contender, PERSONAL)
        own = [replace(alone, label=OWN_MODELS)] if alone else []
    other = [replace(one, label="one model for all", series=contender.series + 1, low=(), high=())] if one else []
    drawing = LinesChart("round", "accuracy in %", [*own, *other], ceiling=100.0, least=5.0)
    if drawing.is_empty():
        return None
    ends = [f"{each.label} {each.points[-1][1]:.1f} %" for each in drawing.series]
    chart = Chart("rounds", "Both accuracies over rounds", f"At the end: {', '.join(ends)}.", drawing)
    see = "How fast both learn. The band is one standard deviation over clients; dots are the worst tenth of them."
    return PageSection("rounds", "Accuracy over rounds", see, [Charts([chart])])


def _title(model: str) -> str:
    return "Clients' own models" if model == PERSONAL else "The one model for all"


def _figure(contender: Contender, model: str) -> MetricName:
    return replace(contender.first.finished.headline, model=model)


def _over_seeds(contender: Contender, model: str) -> ChartSeries | None:
    """Return the line of means over seeds in the rounds that all seeds have, with their range as band."""
    curves = [run.curve(_figure(contender, model)) for run in contender.runs]
    if not any(curves) and model == GENERIC:
        curves = [run.curve(MetricName(GENERIC, "common", statistic="pooled")) for run in contender.runs]
    curves = [curve for curve in curves if curve]
    if not curves:
        return None
    rounds = sorted(set.intersection(*(set(curve) for curve in curves)))
    values = [[curve[round] for curve in curves] for round in rounds]
    low, high = ([min(v) for v in values], [max(v) for v in values]) if len(curves) > 1 else ([], [])
    points = [(float(round), fmean(v)) for round, v in zip(rounds, values, strict=True)]
    return ChartSeries(contender.label, contender.series, points, low, high)


def _see(series: Sequence[ChartSeries]) -> str:
    ends = sorted(((each.points[-1][1], each.label) for each in series if each.points), reverse=True)
    if len(ends) == 1:
        return f"It ends at {ends[0][0]:.1f} %."
    return f"At the end {ends[0][1]} is highest with {ends[0][0]:.1f} %, {ends[-1][1]} lowest with {ends[-1][0]:.1f} %."


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
        [min(100.0, mean[r] + spread[r]) for r in rounds],
    )
    tenth = [(float(r), worst[r]) for r in rounds if r in worst]
    return [middle, *([ChartSeries("worst tenth of clients", contender.series, tenth, dotted=True)] if tenth else [])]


def _small(contender: Contender, series: Sequence[ChartSeries], low: float) -> Chart:
    lines = LinesChart("round", "own models, accuracy in %", series, height=170, fixed=(low, 100.0))
    last = [f"{each.label} {each.points[-1][1]:.1f} %" for each in series]
    see = f"At the end: {', '.join(last)}."
    return Chart(f"spread-{contender.series + 1}", f"{contender.label}, over clients", see, lines, small=True)
