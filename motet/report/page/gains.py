"""Gains: how much better each client's own model is than an alternative."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from motet.metrics.names import PERSONAL
from motet.metrics.pairs import gain
from motet.report.page.contents import Contender, PageContents
from motet.runs.local_baseline import LOCAL, same_clients

FINE_TUNING = "fedavg+ft"
IN_EVERY_RUN = "in every run"
ALONE, ONE_MODEL = "training alone", "the one model for all"


@dataclass(frozen=True)
class Gained:
    """A gain as it is drawn, in points of percent or in the metric's own unit, with its interval."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def is_unsure(self) -> bool:
        """Return whether the interval contains zero."""
        return self.low is not None and self.high is not None and self.low <= 0 <= self.high


@dataclass(frozen=True)
class Gains:
    """The gains of all clients over one alternative; `surely` says what an interval without zero means, if there are
    any."""

    over: str
    of: Mapping[int, Gained]
    surely: str = ""

    @property
    def from_the_worst(self) -> list[int]:
        """Return the clients, the largest loss first."""
        return sorted(self.of, key=lambda client: self.of[client].value)

    @property
    def losers(self) -> list[int]:
        """Return the clients that lose, with certainty or not."""
        return [client for client in self.from_the_worst if self.of[client].value < 0]


def gains_of(contents: PageContents, contender: Contender) -> list[Gains]:
    """Return gains over Local and over fine-tuning if there are such runs, else over the generic model, with
    intervals."""
    found = []
    for method in (LOCAL, FINE_TUNING):
        over = contents.named(method)
        if over is not None and over is not contender and (values := gains_over(contender, over)).of:
            found.append(values)
    if found or contender.plain_method == LOCAL:
        return found
    one = _over_the_one_model(contender)
    return [one] if one.of else []


def gains_over(contender: Contender, over: Contender) -> Gains:
    """Return each training client's gain over the other contender: the mean over seeds, and their range."""
    found: dict[int, list[float]] = {}
    pairs = [
        (mine, other)
        for mine in contender.runs
        for other in over.runs
        if same_clients(mine.finished.experiment, other.finished.experiment)
    ]
    for mine, other in pairs if contender.has_same_clients else pairs[:1]:
        for client in mine.clients:
            a, b = mine.own(client), other.own(client)
            if a is not None and b is not None and client in contender.clients_info:
                found.setdefault(client, []).append(mine.finished.metric.direction * (a - b))
    several = any(len(values) > 1 for values in found.values())
    of = {i: Gained(fmean(v), *((min(v), max(v)) if len(v) > 1 else ())) for i, v in found.items()}
    name = ALONE if over.plain_method == LOCAL else over.label
    return Gains(name, of, IN_EVERY_RUN if several else "")


def _over_the_one_model(contender: Contender) -> Gains:
    """Return the gains of the first seed's run over the generic model, with intervals from its test samples."""
    run = contender.first
    metric, unit = run.finished.metric, run.unit
    found = {i: gain(row, PERSONAL, run.data, metric) for i, row in run.clients.items() if i in contender.clients_info}
    of = {i: Gained(unit.factor * g.value, unit.drawn(g.low), unit.drawn(g.high)) for i, g in found.items() if g}
    known = any(gained.low is not None for gained in of.values())
    return Gains(ONE_MODEL, of, "by more than chance" if known else "")
