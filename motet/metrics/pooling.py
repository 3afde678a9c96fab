"""Figures over all clients' rows at once, from what each client tells of its own rows.

Metrics of numbers (R², RMSE, mean absolute error) are made from five sums of each client: how many rows, mean and
variance of their numbers, and the sizes of its errors.
Metrics of answers (F1, balanced accuracy, precision, recall) are made from the sum of clients' confusion counts.
Metrics of ranks (AUROC, average precision) are made in one of two ways, as `scoring.pooling` says:

`exact`    every row's score and class leave the client, and all are ranked together: for simulations
`binned`   the client counts its rows by class in bins of the score; the server adds the counts up. Rows of one bin
           count as equal, so that AUROC is off by at most half the share of pairs that share a bin

`none` tells nothing, and there is no such figure. Without a metric that needs it nothing is told either.
"""

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from motet.config.scoring_section import ScoringSettings
from motet.messages.message import Message
from motet.metrics.classification import (
    CountMetric,
    RankMetric,
    confusion,
    macro,
    mean_over_classes,
    scores_of,
)
from motet.metrics.metric import Metric
from motet.metrics.names import MetricName
from motet.metrics.numbers import NumberMetric, added, sums_of

BINS = 2000
EDGE = 10.0  # of log(1 + |log-odds|): log-odds beyond ± 22,000 share the outermost bins
POOL = "pool."
_COUNTS, _SCORES, _LABELS, _BINS, _SUMS = "counts", "scores", "labels", "bins", "sums"
_KINDS = (_COUNTS, _SCORES, _LABELS, _BINS, _SUMS)


# ------------------------------------------------------------ at the client


def told(
    model: str, data: str, logits: Tensor | None, y: Tensor | None, metrics: Sequence[Metric], scoring: ScoringSettings
) -> Message:
    """Return what a client tells of its rows, so that the metrics can be computed over all clients' rows."""
    if scoring.pooling == "none" or logits is None or y is None or not len(y) or not bool(torch.isfinite(logits).all()):
        return {}
    told: Message = {}
    if any(isinstance(metric, NumberMetric) for metric in metrics):
        return {_field(_SUMS, model, data): sums_of(logits, y)}
    if any(isinstance(metric, CountMetric) for metric in metrics):
        told[_field(_COUNTS, model, data)] = confusion(logits, y)
    if any(isinstance(metric, RankMetric) for metric in metrics):
        if scoring.pooling == "exact":
            told |= {_field(_SCORES, model, data): scores_of(logits), _field(_LABELS, model, data): y}
        else:
            told[_field(_BINS, model, data)] = binned(logits, y)
    return told


def binned(logits: Tensor, y: Tensor, bins: int = BINS) -> Tensor:
    """Return for each class that is scored: how many rows of it, and how many others, are in each bin of the score.

    Bins have equal widths on the scale ± log(1 + |x|) of the log-odds x: fine where most scores of a rare class are,
    and wide enough for models that are very sure.
    """
    odds = log_odds(logits)
    scale = odds.sign() * odds.abs().log1p().clamp_max(EDGE)
    place = ((scale + EDGE) / (2 * EDGE) * bins).long().clamp_max(bins - 1)
    classes = [1] if odds.shape[1] == 1 else range(odds.shape[1])
    kinds = [(place[y == c, i], place[y != c, i]) for i, c in enumerate(classes)]
    return torch.stack([torch.stack([torch.bincount(of, minlength=bins) for of in kind], 1) for kind in kinds]).int()


def log_odds(logits: Tensor) -> Tensor:
    """Return the log-odds of the second of two classes, or of each of several against all others."""
    x = logits.double()
    if x.shape[1] == 2:
        return x[:, 1:] - x[:, :1]
    others = [torch.cat([x[:, :c], x[:, c + 1 :]], 1).logsumexp(1) for c in range(x.shape[1])]
    return x - torch.stack(others, 1)


# ------------------------------------------------------------ at the server


def without_pooled(reply: Message) -> Message:
    """Return a reply without what was told for pooled figures, as the record has it."""
    return {name: value for name, value in reply.items() if not name.startswith(POOL)}


def renamed(reply: Message, model: str, to: str) -> Message:
    """Return what the reply tells of one model, as if it were of another one."""
    found: Message = {}
    for name in [name for name in reply if name.startswith(POOL)]:
        for kind in _KINDS:
            start = _field(kind, model, "")
            if name.startswith(start):
                found[_field(kind, to, name.removeprefix(start))] = reply[name]
    return found


def pooled_figures(replies: Iterable[Message], models: Sequence[str], metrics: Sequence[Metric]) -> dict[str, float]:
    """Return every metric over all clients' rows at once, for each model and kind of data of which clients told."""
    every = list(replies)
    found: dict[str, float] = {}
    for model in models:
        for data in ("split", "validation"):
            for metric in metrics:
                value = _pooled(metric, {kind: _of(every, kind, model, data) for kind in _KINDS})
                if value is not None:
                    found[str(MetricName(model, data, metric.name, "pooled"))] = value
    return found


def _pooled(metric: Metric, told: Mapping[str, list[Tensor]]) -> float | None:
    if isinstance(metric, NumberMetric) and told[_SUMS]:
        return metric.of_sums(added(told[_SUMS]))
    if isinstance(metric, CountMetric) and told[_COUNTS]:
        return metric.of_counts(torch.stack(told[_COUNTS]).sum(0))
    if isinstance(metric, RankMetric) and told[_SCORES]:
        return macro(torch.cat(told[_SCORES]), torch.cat(told[_LABELS]), metric.of_levels)
    if isinstance(metric, RankMetric) and told[_BINS]:
        counts = torch.stack(told[_BINS]).sum(0).double()
        return mean_over_classes([metric.of_levels(of_class) for of_class in counts])
    return None


def _of(replies: Sequence[Message], kind: str, model: str, data: str) -> list[Tensor]:
    name = _field(kind, model, data)
    return [value for reply in replies if isinstance(value := reply.get(name), Tensor)]


def _field(kind: str, model: str, data: str) -> str:
    return f"{POOL}{kind}.{model}.{data}"
