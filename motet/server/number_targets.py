"""Experiments whose label is a number: their metrics, their loss, and what does not fit them."""

from motet.config.data_section import DataSettings
from motet.config.experiment import Experiment
from motet.config.own_data import is_table
from motet.config.scoring_section import ScoringSettings
from motet.config.sections import NumberLoss
from motet.data import FederationFacts, build
from motet.errors import MotetError, shown
from motet.metrics.names import FROM_SUMS, name_of_metric
from motet.metrics.numbers import R2, RMSE
from motet.metrics.registry import METRICS, OF_A_RUN, run_metrics_of
from motet.nets.criterion import Criterion

FEW_ROWS = 10
"""Test rows of a client, of fewer of which R² says little: a client's own variance divides it."""


def settled_target(data: DataSettings, scoring: ScoringSettings, seed: int) -> tuple[DataSettings, ScoringSettings]:
    """Return the settings for a user's own data: where the label is a number, with metrics of numbers.

    Models are then judged by R²; by RMSE where some client has fewer than `FEW_ROWS` test rows.
    """
    if data.target == "class" or (data.target == "auto" and not is_table(data.name) and scoring.metric != "auto"):
        return data, scoring
    try:
        federation = build(data, seed)
    except MotetError:
        return data, scoring  # the run says why the data cannot be read
    if not federation.target:
        return data, scoring
    tests = [len(c.val if scoring.test == "none" else c.test) for c in federation.clients if not c.new]
    if scoring.metric == "auto":
        enough = min((rows for rows in tests if rows), default=0) >= FEW_ROWS
        scoring = scoring.model_copy(update={"metric": R2.name if enough else RMSE.name})
    if not {name_of_metric(name) for name in scoring.asked_metrics} & FROM_SUMS:
        scoring = scoring.model_copy(update={"metrics": (*scoring.metrics, R2.name)})
    if scoring.by_class == "auto":
        scoring = scoring.model_copy(update={"by_class": False})
    return data.model_copy(update={"target": "number"}), scoring


def refuse_metrics_of_others(experiment: Experiment, facts: FederationFacts) -> None:
    """Raise if a metric of classes is asked for numbers, or one of numbers for classes."""
    scoring = experiment.scoring
    if facts.target and scoring.by_class:
        raise MotetError(f"scoring.by_class is true, but the target {shown(facts.target)} is a number; accepted: false")
    for metric in run_metrics_of(scoring.metrics) if facts.target else ():
        if metric.needs_classes:
            others = (name for name, kind in OF_A_RUN.items() if not kind.needs_classes)
            raise MotetError(
                f"scoring.metrics {metric.name!r} needs classes, and the target {shown(facts.target)} is a number; "
                f"accepted: {', '.join((*sorted(FROM_SUMS), *others))}"
            )
    for name in map(name_of_metric, scoring.asked_metrics):
        if facts.target and name in METRICS and name not in FROM_SUMS:
            raise MotetError(
                f"scoring.metric {name!r} needs classes, and the target {shown(facts.target)} is a number; accepted: "
                f"{', '.join(sorted(FROM_SUMS))}"
            )
        if not facts.target and name in FROM_SUMS:
            raise MotetError(
                f"scoring.metric {name!r} is for numbers as targets, and the label holds classes; accepted: another, "
                f"or data.target = number"
            )


def criterion_of(loss: NumberLoss, facts: FederationFacts) -> Criterion:
    """Return the loss that nets are trained by; raise if one of numbers is asked for where there are classes."""
    if facts.target:
        return "squared" if loss == "auto" else loss
    if loss != "auto":
        raise MotetError(f"local.loss is {loss!r}, which is for numbers, and the label holds classes; accepted: auto")
    return "classes"
