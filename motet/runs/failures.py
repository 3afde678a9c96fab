"""What failed in finished runs, in sentences, so that a failure is not taken for a good result."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from motet.methods.base import Method
from motet.metrics.classification import BRIER
from motet.metrics.names import FROM_RANKS, FROM_SUMS, GENERIC, MAJORITY, PERSONAL, MetricName, diverged, one_class
from motet.metrics.registry import ACCURACY, LOSS, known_metric
from motet.metrics.wording import percent, written
from motet.runs.rows import Row

NEAR_CHANCE = 0.02  # above 1/classes: an accuracy up to there counts as chance
OF_PROBABILITIES = FROM_RANKS | {LOSS.name, BRIER.name}
"""Metrics of what a model says before any threshold makes an answer of it."""
NO_SKEW = ("natural", "iid")
"""Partitions that do not deal classes unevenly: there the most frequent class of most clients is the same."""


def warnings_of(
    method: Method, trained: Sequence[Row], rows: Mapping[str, Row], headline: MetricName, no_skew: bool = False
) -> list[str]:
    """Return a sentence for each thing that failed in a finished run, so that it is not taken for a good result.

    Where no partition dealt classes unevenly (`no_skew`), models must be better than the most frequent class.
    """
    said, asked = [], sum(len(row.get("cohort", ())) for row in trained)
    aside = [why for row in trained for why in row["set_aside"].values()]
    if aside and len(aside) == asked:
        said.append(f"every training failed ({aside[0]}): the models are as they began; a smaller local.lr may help")
    elif 2 * len(aside) >= max(asked, 1):
        said.append(f"{len(aside)} of {asked} trainings failed ({aside[0]})")
    clients, generic, own = len(method.facts.ids), rows[GENERIC], rows[PERSONAL]
    if lost := own.get(diverged(PERSONAL), 0):
        said.append(f"{lost} of {clients} clients' models left the finite numbers and count as wrong everywhere")
    by_answers = headline.metric not in OF_PROBABILITIES  # a model that ranks well may still answer with one class
    value, classes = headline.of(own), method.facts.classes
    often = replace(headline, model=MAJORITY).of(own) if headline.metric == ACCURACY.name else None
    of_generic = replace(headline, model=GENERIC).of(generic)
    if by_answers and 2 * generic.get(one_class(GENERIC), 0) >= clients and not _learned(of_generic, often):
        said.append("the generic model predicts one class only")
    alike = own.get(one_class(PERSONAL), 0)
    if by_answers and 2 * alike >= clients and method.personalizes and not _learned(value, often):
        said.append(f"{alike} of {clients} clients' models predict one class only")
    if value is not None and headline.metric in FROM_SUMS:
        metric, level = known_metric(headline.metric), replace(headline, model=MAJORITY).of(own)
        if level is not None and metric.direction * (value - level) <= 0:
            said.append(
                f"own models ({metric.said} {written(value, metric)}) are no better than always answering with the "
                f"mean of a client's training rows ({written(level, metric)})"
            )
    if value is None or classes < 2:
        return said
    if headline.metric == ACCURACY.name:
        if value <= 1 / classes + NEAR_CHANCE:
            said.append(
                f"own models are at chance level ({percent(value)} % with {classes} classes): nothing was learned"
            )
        elif no_skew and often is not None and value <= often:
            said.append(
                f"own models ({percent(value)} %) are no better than always answering with a client's most frequent "
                f"class ({percent(often)} %)"
            )
    elif headline.metric in CHANCE and value <= CHANCE[headline.metric](classes) + NEAR_CHANCE:
        metric = known_metric(headline.metric)
        said.append(f"own models are at chance level ({metric.said} {written(value, metric)}): nothing was learned")
    return said


def _learned(value: float | None, often: float | None) -> bool:
    """Return whether an accuracy is clearly above that of each client's most frequent class.

    Then it is no failure that models give a client one answer: rare classes are seldom right, and of six test rows all
    may be of the class that the model rightly names.
    """
    return value is not None and often is not None and value > often + NEAR_CHANCE


def counted_warnings(of_runs: Sequence[Sequence[str]]) -> list[str]:
    """Return each warning of several runs once, with the number of runs that have it where others have it not."""
    counts = Counter(text for warnings in of_runs for text in dict.fromkeys(warnings))
    runs = len(of_runs)
    return [text if count == runs else f"{text}, in {count} of {runs} runs" for text, count in counts.items()]


def failed(of_runs: Sequence[Sequence[str]]) -> bool:
    """Return whether a method failed, by the warnings of its runs: where training broke in one, or most had some.

    On few test rows a sound model may be no better than the most frequent class in one run among several.
    """
    broke = any(words in text for warnings in of_runs for text in warnings for words in _BROKE)
    return broke or 2 * sum(map(bool, of_runs)) >= max(len(of_runs), 1)


_BROKE = ("training failed", "trainings failed", "left the finite numbers")
"""What warnings say of training that broke."""


CHANCE: Mapping[str, Callable[[int], float]] = {
    "auroc": lambda classes: 0.5,
    "balanced_accuracy": lambda classes: 1 / classes,
}
"""What a model has that knows nothing, by metric and number of classes."""
