"""Statistics over clients: means, spreads, and how many clients are worse off."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from motet.messages.message import Message
from motet.metrics.metric import ACCURACY, Metric, SampleMetric
from motet.metrics.names import (
    AFTER,
    BEFORE,
    BENIGN,
    DATA,
    FROM_SUMS,
    GENERIC,
    IF_ASKED,
    MAJORITY,
    PERSONAL,
    MetricName,
    diverged,
    one_class,
)

TRAINING, SPLIT, VALIDATION = "n", "n.split", "n.validation"  # how many samples a client has of each kind
SAMPLES = {"common": TRAINING, "weighted": TRAINING, "split": SPLIT, "validation": VALIDATION, "training": TRAINING}
INSTEAD_OF = {PERSONAL: GENERIC, AFTER: BEFORE}  # what a client would have without the model

Figures = dict[str, float | int | None]


@dataclass(frozen=True)
class Spread:
    """Statistics of one value per client; the fields have the names of the statistics."""

    mean: float
    by_samples: float
    std: float
    minimum: float
    worst_tenth: float
    maximum: float | None = None  # the worst of a metric such as a loss; else there is none


def spread(values: Sequence[float], samples: Sequence[int], higher_is_better: bool = True) -> Spread | None:
    """Return mean (uniform and by samples), population standard deviation, minimum, mean of the worst tenth."""
    if not values:
        return None
    array, weights = np.array(values), np.array(samples, dtype=float)
    worst_first = np.sort(array) if higher_is_better else np.sort(array)[::-1]
    tenth = worst_first[: max(1, round(len(array) / 10))]
    by_samples = float(array @ weights / weights.sum()) if weights.sum() else float(array.mean())
    most = None if higher_is_better else float(array.max())
    return Spread(float(array.mean()), by_samples, float(array.std()), float(array.min()), float(tenth.mean()), most)


def figures_over(replies: Sequence[Message], models: Sequence[str], metrics: Sequence[Metric]) -> Figures:
    """Return every statistic of every model that clients scored; the mean accuracy is None without any value."""
    figures: Figures = {}
    for model in models:
        for data in DATA:
            for metric in metrics:
                if metric is ACCURACY and (model, data) != (GENERIC, "common") and data not in IF_ASKED:
                    figures[str(MetricName(model, data).over("mean"))] = None
                figures |= _statistics(replies, MetricName(model, data, metric.name), metric)
        if model != GENERIC:
            figures[diverged(model)] = sum(bool(reply.get(diverged(model))) for reply in replies)
        if alike := sum(bool(reply.get(one_class(model))) for reply in replies):
            figures[one_class(model)] = alike
    return figures


def majority_figures(replies: Sequence[Message]) -> Figures:
    """Return the means over clients of how often always answering with their most frequent class is right.

    Of numbers, the means of how well the mean of each client's training data predicts.
    """
    figures: Figures = {}
    kinds = [(data, metric) for data in ("split", "validation", "weighted") for metric in ("accuracy", *FROM_SUMS)]
    for data, metric in sorted(kinds):
        name = MetricName(MAJORITY, data, metric)
        have = [reply for reply in replies if str(name) in reply]
        found = spread([float(r[str(name)]) for r in have], [int(r.get(SAMPLES[data], 0)) for r in have])
        if found is not None:
            figures |= {str(name.over("mean")): found.mean, str(name.over("by_samples")): found.by_samples}
    return figures


def of_benign(figures: Mapping[str, object]) -> dict[str, object]:
    """Return figures over benign clients renamed to say so, beside those over all clients."""
    return {str(replace(f, among=BENIGN)): value for name, value in figures.items() if (f := MetricName.read(name))}


def _statistics(replies: Sequence[Message], figure: MetricName, metric: Metric) -> Figures:
    name, size = str(figure), SAMPLES[figure.data]
    have = [reply for reply in replies if name in reply]
    found = spread([float(r[name]) for r in have], [int(r.get(size, 0)) for r in have], metric.higher_is_better)
    if found is None:
        return {}
    figures: Figures = {str(figure.over(name)): value for name, value in asdict(found).items() if value is not None}
    without = INSTEAD_OF.get(figure.model.partition("@")[0])
    if without is not None:
        other = str(MetricName(without, figure.data, figure.metric))
        pairs = [(float(r[name]), float(r[other])) for r in have if other in r]
        figures |= worse_off(figure, pairs, "hurt", metric.higher_is_better)
    return figures


def worse_off(
    figure: MetricName, pairs: Sequence[tuple[float, float]], statistic: str, higher_is_better: bool
) -> Figures:
    """Return share and number of clients whose first value is worse than the second, and how many are better.

    `statistic` is `hurt` for the generic model and `hurt_vs_local` for `local`.
    """
    if not pairs:
        return {}
    lower = sum(mine < other for mine, other in pairs)
    higher = sum(mine > other for mine, other in pairs)
    worse, better = (lower, higher) if higher_is_better else (higher, lower)
    of = statistic.removeprefix("hurt")
    return {
        str(figure.over(statistic)): worse / len(pairs),
        str(figure.over(f"hurt{of}_clients")): worse,
        str(figure.over(f"better{of}_clients")): better,
        str(figure.over(f"compared{of}_clients")): len(pairs),
    }


def pooled_from_splits(replies: Sequence[Message], model: str, metrics: Sequence[Metric]) -> Figures:
    """Return a model's share of right answers on all clients' test data together, from each client's own share."""
    figures: Figures = {}
    for metric in metrics:
        name = str(MetricName(model, "split", metric.name))
        have = [reply for reply in replies if name in reply]
        samples = sum(int(reply[SPLIT]) for reply in have)
        if isinstance(metric, SampleMetric) and samples:
            sums = [float(reply[name]) * int(reply[SPLIT]) for reply in have]
            right = sum(map(round, sums)) if metric.counts else sum(sums)
            figures[str(MetricName(model, "common", metric.name, "pooled"))] = right / samples
    return figures
