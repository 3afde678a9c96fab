"""The registry of metrics that an experiment names in `scoring.metrics`, and the loading of a user's own.

Most are computed from logits and labels by the client, at every evaluation (`motet/metrics/metric.py`). Some are
computed once at the end of a run (`motet/metrics/run_metric.py`); these may have options, as in `mdl(layer=fc1)`. A
user's own metric is a function of logits and labels, `module:function` or `path/file.py:function`.
"""

import traceback
from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

from torch import Tensor

from motet.config.names import Term, parse
from motet.config.scoring_section import ScoringSettings
from motet.config.section import checked
from motet.errors import MotetError, unknown
from motet.io.plugins import is_import, load_object
from motet.metrics import classification, numbers
from motet.metrics.adaptation import Adaptation
from motet.metrics.calibration import ECE, MCE, Calibration
from motet.metrics.confusion import ConfusionMatrix
from motet.metrics.convergence import Convergence
from motet.metrics.cross_client import CrossClient
from motet.metrics.curves import Curves
from motet.metrics.drift import Drift
from motet.metrics.feature_plane import FeaturePlane
from motet.metrics.fisher import Fisher
from motet.metrics.line import Line
from motet.metrics.mdl import MDL
from motet.metrics.metric import ACCURACY, LOSS, TOP5, Metric, MetricFailed, SampleMetric, SetMetric
from motet.metrics.names import ALIASES, BENIGN, DATA, STATISTICS
from motet.metrics.numbers import NumberMetric
from motet.metrics.rounds_to import RoundsTo
from motet.metrics.run_metric import RunMetric
from motet.metrics.summaries import Summaries
from motet.metrics.threshold import ThresholdChoice
from motet.metrics.update_variance import UpdateVariance
from motet.metrics.weight_plane import WeightPlane
from motet.metrics.within_round import WithinRound

__all__ = [
    "ACCURACY",
    "LOSS",
    "METRICS",
    "OF_A_RUN",
    "Metric",
    "SampleMetric",
    "SetMetric",
    "describe_metrics",
    "headline_metric",
    "known_metric",
    "metric_asked",
    "metrics_of",
    "require_metrics",
    "run_metrics_of",
]

METRICS: dict[str, Metric] = {
    metric.name: metric for metric in (ACCURACY, LOSS, TOP5, ECE, MCE, *classification.ALL, *numbers.ALL)
}
OF_A_RUN: dict[str, type[RunMetric]] = {
    metric.name: metric
    for metric in (
        *(Adaptation, Calibration, ConfusionMatrix, Convergence, CrossClient, Curves, Drift, FeaturePlane, Fisher),
        *(Line, MDL, RoundsTo, Summaries, UpdateVariance, WeightPlane, WithinRound),
    )
}
_FIELD = "metric (scoring.metrics)"
_HEADLINE = "metric (scoring.metric)"
_traceback_shown: set[str] = set()  # metrics whose traceback this process has shown


def metrics_of(asked: Sequence[str]) -> tuple[Metric, ...]:
    """Return the metrics that are always there and those of logits that are asked for, in their order.

    Accuracy and loss are always there, but R², RMSE and mean absolute error where one of numbers is asked for.
    """
    wanted = [_own(text) if is_import(text) else _of_logits(_term(text)) for text in asked]
    of_numbers = any(isinstance(metric, NumberMetric) for metric in wanted)
    found: dict[str, Metric] = {metric.name: metric for metric in (numbers.ALL if of_numbers else (ACCURACY, LOSS))}
    for metric in filter(None, wanted):
        if of_numbers and metric.name in METRICS and not isinstance(metric, NumberMetric):
            raise MotetError(
                f"scoring.metrics has {metric.name!r}, which needs classes, beside metrics of numbers; accepted: "
                f"{', '.join(each.name for each in numbers.ALL)}"
            )
        if metric.name in found and found[metric.name] is not metric:
            raise MotetError(f"scoring.metrics has two metrics named {metric.name!r}; accepted: each name once")
        found[metric.name] = metric
    return tuple(found.values())


def metric_asked(text: str) -> Metric:
    """Return the metric of logits that a text asks for, such as `auroc`; raise if it is none by which to judge."""
    metric = _own(text, _HEADLINE) if is_import(text) else _of_logits(_term(text, _HEADLINE))
    if metric is None:
        raise unknown(_HEADLINE, text, [*METRICS, *ALIASES, "FILE.py:function"])
    return metric


def headline_metric(scoring: ScoringSettings) -> Metric:
    """Return the metric by which the models of an experiment are judged."""
    return metric_asked(ACCURACY.name if scoring.metric == "auto" else scoring.metric)


def known_metric(name: str, higher_is_better: bool = True) -> Metric:
    """Return the metric of a figure's name; of a user's own, whose code is not loaded, what a record says of it."""
    own = Metric(name, "", "", percent=False, higher_is_better=higher_is_better, worst=None, margin=0.0)
    return METRICS.get(name, own)


def run_metrics_of(asked: Iterable[str], threshold: str = "") -> tuple[RunMetric, ...]:
    """Return the metrics of a whole run that are asked for, in their order and without duplicates.

    `threshold` is `scoring.threshold`: where it is set, the choice of thresholds is the first of them.
    """
    terms = [_term(text) for text in asked if not is_import(text)]
    found = [checked(OF_A_RUN[t.name], t.options, f"metric {t.name}") for t in terms if t.name in OF_A_RUN]
    chosen = [ThresholdChoice(rule=threshold)] if threshold else []
    return tuple(dict.fromkeys([*chosen, *found]))


def require_metrics(asked: Sequence[str]) -> None:
    """Raise `MotetError` for a name or an option that no metric has, long before anything is measured."""
    metrics_of(asked)
    run_metrics_of(asked)


def describe_metrics() -> list[dict[str, Any]]:
    """Return name, summary and paper of every metric, and last a row about the statistics over clients."""
    of_logits = [{"name": m.name, "summary": m.summary, "paper": m.paper} for m in METRICS.values()]
    run_metric = [
        {
            "name": kind.name,
            "summary": f"{kind.summary} (once, at the end)",
            "paper": kind.paper,
            "options": {name: info.default for name, info in kind.model_fields.items()},
        }
        for kind in OF_A_RUN.values()
    ]
    over_clients = [
        {"name": f".{name}", "summary": f"of every metric, always there: {words}", "paper": _PAPERS.get(name, "")}
        for name, words in STATISTICS.items()
        if name in _PAPERS
    ]
    return [*of_logits, *run_metric, *over_clients]


_PAPERS = {
    "std": "spread over clients; q-FFL, Li et al. 2020",
    "minimum": "the worst client",
    "worst_tenth": "q-FFL, Li et al. 2020",
    "hurt": "Yu et al. 2020",
    "hurt_vs_local": "with a run of `local` beside it (motet show --local)",
    "gain_vs_local": "PGFed, Luo et al. 2023: individual gain",
    "gain_vs_local_std": "PGFed, Luo et al. 2023",
}


def _term(text: str, field: str = _FIELD) -> Term:
    """Return a name with its options; raise if the text is none."""
    terms = parse(text, field, "ece or mdl(layer=fc1)")
    if len(terms) > 1:
        raise MotetError(f"{field} {text!r} is a sum; accepted: one name, each in a --metrics of its own")
    term = replace(terms[0], name=ALIASES.get(terms[0].name, terms[0].name))
    if term.name not in {**METRICS, **OF_A_RUN}:
        raise unknown(field, term.name, [*METRICS, *ALIASES, *(OF_A_RUN if field == _FIELD else ())])
    return term


def _of_logits(term: Term) -> Metric | None:
    """Return the metric of logits of this name, or None for a metric of a run."""
    metric = METRICS.get(term.name)
    if metric is not None and term.options:
        raise MotetError(f"{_FIELD} {term} has options; accepted: {term.name}, which takes none")
    return metric


def _own(text: str, field: str = _FIELD) -> Metric:
    """Return a user's function as a metric; `function.higher_is_better = False` says that lower values are better."""
    function = load_object(text, field)
    if not callable(function):
        raise MotetError(f"scoring.metrics: {text} is no function; accepted: one of logits and labels")
    name = text.rpartition(":")[2].rpartition(".")[2]
    if name in METRICS or name in OF_A_RUN or name in STATISTICS or name in DATA or name == BENIGN:
        raise MotetError(f"scoring.metrics: {text} bears a name of Motet's own; accepted: a function of another name")

    def value(logits: Tensor, y: Tensor) -> float | None:
        try:
            found = function(logits, y)
        except Exception as error:  # any error of a user's function: no metric may lose a run
            if text not in _traceback_shown:
                _traceback_shown.add(text)
                traceback.print_exception(error)
            raise MetricFailed(text) from error
        try:
            number = float(found)
        except (TypeError, ValueError):
            raise MotetError(f"metric {text} gave {type(found).__name__}; accepted: a number") from None
        return number if isfinite(number) else None

    better = bool(getattr(function, "higher_is_better", True))
    return SetMetric(name, "", text, percent=False, higher_is_better=better, worst=None, margin=0.0, value=value)
