"""The section with the trade-off plane: accuracy of the generic model against that of personal models."""

from statistics import fmean, stdev

from motet.report.charts import Chart, Plane, Spot
from motet.report.page.blocks import Charts, PageSection
from motet.report.page.contents import Contender, PageContents, Unit
from motet.studies.comparison_file import Score

Interval = tuple[float, float]


def tradeoff(contents: PageContents) -> PageSection | None:
    """Return the section with one point per contender; None if there are fewer than two."""
    spots = [spot for contender in contents.contenders if (spot := _spot(contender))]
    if len(spots) < 2:
        return None
    unit = contents.unit
    whisker = "their intervals" if contents.comparison else "one standard deviation over seeds"
    whiskers = f"; the lines are {whisker}" if any(s.y_interval for s in spots) else ""
    plane = Plane(
        f"one model for all, {unit.title}",
        f"clients' own models, {unit.title}",
        spots,
        "no such model",
        unit.least(0.04),
        unit.ceiling,
    )
    up, right = ("up", "right") if unit.metric.higher_is_better else ("down", "left")
    return PageSection(
        "tradeoff",
        "Good for all, good for each",
        f"Further {up}, clients' own models are better; further {right}, the one model for all is{whiskers}.",
        [Charts([Chart("tradeoff", "The one model for all against clients' own models", _see(spots, unit), plane)])],
        closed=True,
    )


def _see(spots: list[Spot], unit: Unit) -> str:
    turn = unit.metric.direction
    best = max(spots, key=lambda s: turn * s.y)
    words = f"Best own models: {best.label} with {unit.said(best.y)}"
    with_x = [(s.x, s.label) for s in spots if s.x is not None]
    if with_x:
        x, label = max(with_x, key=lambda each: turn * each[0])
        words += f"; best model for all: {label} with {unit.said(x)}"
    return f"{words}."


def _spot(contender: Contender) -> Spot | None:
    compared = contender.compared
    factor = contender.first.unit.factor
    y, y_interval = _value(contender.headline(), compared.personal if compared else None, factor)
    x, x_interval = _value(contender.generic(), compared.generic if compared else None, factor)
    return None if y is None else Spot(contender.label, contender.series, x, y, x_interval, y_interval)


def _value(values: list[float], scored: Score | None, factor: float) -> tuple[float | None, Interval | None]:
    """Return mean and interval as they are drawn: the comparison's interval, or the spread over seeds."""
    if scored is not None:
        interval = scored.interval
        return factor * scored.mean, (factor * interval[0], factor * interval[1]) if interval else None
    if not values:
        return None, None
    mean = factor * fmean(values)
    if len(values) < 2:
        return mean, None
    return mean, (mean - factor * stdev(values), mean + factor * stdev(values))
