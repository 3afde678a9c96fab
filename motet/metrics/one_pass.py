"""One pass of a model over samples, for all metrics at once."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite

import torch
from torch import Tensor, nn

from motet.data import Samples
from motet.data.schema import NumberTarget
from motet.metrics.metric import ACCURACY, Metric, MetricFailed, SampleMetric, SetMetric

EVALUATION_BATCH = 200  # as fast as larger ones, whatever the C library does with large blocks


@dataclass
class Answers:
    """The result of a pass: samples per class, right ones (or a sum) per class and metric, logits if needed."""

    counts: Tensor
    right: dict[str, Tensor]
    logits: Tensor | None = None
    y: Tensor | None = None
    hits: Tensor | None = None  # which samples are right, in their order
    answered: Tensor | None = None  # how often the model predicts each class
    failed: set[str] = field(default_factory=set)  # names of metrics that raised an error

    @cached_property
    def total(self) -> int:
        """How many samples there are."""
        return int(self.counts.sum())

    @property
    def one_class(self) -> bool:
        """Whether the model predicts a single class although the samples have several."""
        return self.answered is not None and _above_zero(self.answered) == 1 < _above_zero(self.counts)

    def __add__(self, other: "Answers") -> "Answers":
        """Return the answers on both sets of samples together."""
        both = Answers(self.counts + other.counts, {name: r + other.right[name] for name, r in self.right.items()})
        if self.logits is not None and other.logits is not None and self.y is not None and other.y is not None:
            both.logits, both.y = torch.cat([self.logits, other.logits]), torch.cat([self.y, other.y])
        return both

    def value(self, metric: Metric) -> float | None:
        """Return a metric over all samples; None without samples, and the metric's `worst` if it is not finite."""
        if not self.total:
            return None
        if isinstance(metric, SampleMetric):
            return _finite(self.right[metric.name].sum().item() / self.total, metric)
        assert isinstance(metric, SetMetric) and self.logits is not None and self.y is not None
        try:
            return _finite(metric.value(self.logits, self.y), metric)
        except MetricFailed:
            self.failed.add(metric.name)
            return None


def _above_zero(counts: Tensor) -> int:
    return sum(count > 0 for count in counts.tolist())


def _finite(value: float | None, metric: Metric) -> float | None:
    return value if value is None or isfinite(value) else metric.worst


def one_pass(
    model: nn.Module, samples: Samples, metrics: Sequence[Metric], classes: int, rows: Tensor | None = None
) -> Answers:
    """Return the model's answers on these rows, or on all samples, copying only one batch at a time."""
    model.eval()
    device = _device(model)
    if samples.prepare.target is not None:
        return _numbers_pass(model, samples, samples.prepare.target, rows)
    each = [metric for metric in metrics if isinstance(metric, SampleMetric)]
    keeping = len(each) < len(metrics)
    right = {m.name: torch.zeros(classes, dtype=torch.int64 if m.counts else torch.float64) for m in each}
    batches = (
        samples.all_batches(EVALUATION_BATCH)
        if rows is None
        else (samples.batch(some) for some in torch.split(rows, EVALUATION_BATCH) if len(some))
    )
    said: list[Tensor] = []
    hits: list[Tensor] = []
    answered = torch.zeros(classes, dtype=torch.int64)
    with torch.inference_mode():
        for x, y in batches:
            logits = model(x.to(device)).cpu()
            likeliest = logits.argmax(1)
            answered += torch.bincount(likeliest, minlength=classes)[:classes]
            for metric in each:
                said_of_each = likeliest == y if metric is ACCURACY else metric.right(logits, y)
                right[metric.name] += (
                    torch.bincount(y[said_of_each], minlength=classes)
                    if metric.counts
                    else torch.bincount(y, weights=said_of_each, minlength=classes)
                )
                if metric is ACCURACY:
                    hits.append(said_of_each)
            if keeping:
                said.append(logits)
    y = samples.y if rows is None else samples.y.index_select(0, rows)
    counts = samples.counts(classes) if rows is None else torch.bincount(y, minlength=classes)
    all_hits = (hits[0] if len(hits) == 1 else torch.cat(hits)) if hits else None
    answers = Answers(counts, right, hits=all_hits, answered=answered)
    if keeping:
        answers.logits, answers.y = torch.cat(said) if said else torch.zeros(0, classes), y
    return answers


def _device(model: nn.Module) -> torch.device | None:
    """Return where a model's first parameter is; torch's own list of parameters is slow to begin."""
    for p in model._parameters.values():
        if p is not None:
            return p.device
    children = [child for child in model._modules.values() if child is not None]
    return next((found for child in children if (found := _device(child)) is not None), None)


def _numbers_pass(model: nn.Module, samples: Samples, target: NumberTarget, rows: Tensor | None) -> Answers:
    """Return the numbers that a model predicts for these rows, and the true ones, in the unit of the target."""
    device = _device(model)
    every = torch.arange(len(samples)) if rows is None else rows
    said = [torch.zeros(0, 1, dtype=torch.float64)]
    with torch.inference_mode():
        for some in torch.split(every, EVALUATION_BATCH) if len(every) else ():
            x, _ = samples.batch(some)
            said.append(target.unscaled(model(x.to(device)).cpu()))
    return Answers(torch.tensor([len(every)]), {}, torch.cat(said), samples.y.index_select(0, every))


def share_right(right: Tensor, counts: Tensor) -> float | None:
    """Return the share of right answers, or the mean of a number per sample; None without samples."""
    total = int(counts.sum())
    return right.sum().item() / total if total else None


def class_weighted(right: Tensor, counts: Tensor, client_counts: Tensor, corrected: bool = False) -> float | None:
    """FED-ROD's personal accuracy on the common test set (Eq. 20), Σ P_m(y)·1[ŷ = y] / Σ P_m(y).

    `client_counts` are the classes of client m's training set. As printed, class c weighs P_m(c)·T_c with T_c
    its size in the test set; corrected, it weighs P_m(c), which is the same on a balanced test set.
    """
    share = client_counts.double() / client_counts.sum()
    present = counts > 0
    weight = (share if corrected else share * counts)[present]
    if not weight.sum():
        return None
    found = float((weight * (right[present] / counts[present])).sum() / weight.sum())
    return found if isfinite(found) else None
