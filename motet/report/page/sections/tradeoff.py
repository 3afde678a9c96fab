"""The section with the trade-off plane: accuracy of the generic model against that of personal models."""

from statistics import fmean, stdev

from motet.report.charts import Chart, Plane, Spot
from motet.report.page.blocks import Charts, PageSection
from motet.report.page.contents import Contender, PageContents
from motet.studies.comparison_file import Score

Interval = tuple[float, float]


def tradeoff(contents: PageContents) -> PageSection | None:
    """Return the section with one point per contender; None if there are fewer than two."""
    spots = [spot for contender in contents.contenders if (spot := _spot(contender))]
    if len(spots) < 2:
        return None
    whisker = "their intervals" if contents.comparison else "one standard deviation over seeds"
    whiskers = f"; the lines are {whisker}" if any(s.y_interval for s in spots) else ""
    plane = Plane(
        "one model for all, accuracy in %", "clients' own models, accuracy in %", spots, "no such model", 4.0, 100.0
    )
    return PageSection(
        "tradeoff",
        "Good for all, good for each",
        f"Further up, clients' own models are better; further right, the one model for all is{whiskers}.",
        [Charts([Chart("tradeoff", "The one model against clients' own models", _see(spots), plane)])],
    )


def _see(spots: list[Spot]) -> str:
    up = max(spots, key=lambda s: s.y)
    words = f"Highest: {up.label} with {up.y:.1f} %"
    with_x = [s for s in spots if s.x is not None]
    if with_x:
        right = max(with_x, key=lambda s: s.x or 0)
        words += f"; furthest right: {right.label} with {right.x:.1f} %"
    return f"{words}."


def _spot(contender: Contender) -> Spot | None:
    compared = contender.compared
    y, y_interval = _value(contender.headline(), compared.personal if compared else None)
    x, x_interval = _value(contender.generic(), compared.generic if compared else None)
    return None if y is None else Spot(contender.label, contender.series, x, y, x_interval, y_interval)


def _value(values: list[float], scored: Score | None) -> tuple[float | None, Interval | None]:
    """Return mean and interval in percent: the comparison's interval, or the spread over seeds."""
    if scored is not None:
        interval = scored.interval
        return 100 * scored.mean, (100 * interval[0], 100 * interval[1]) if interval else None
    if not values:
        return None, None
    mean = 100 * fmean(values)
    if len(values) < 2:
        return mean, None
    return mean, (mean - 100 * stdev(values), mean + 100 * stdev(values))
