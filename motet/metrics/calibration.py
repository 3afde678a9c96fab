"""Calibration: whether a model is right as often as it is confident (SuPerFed's ECE and MCE), and its diagram."""

from collections.abc import Callable, Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from motet.data import Samples
from motet.messages.message import Message, tensor
from motet.methods.base import Axis, LearnedFigure
from motet.metrics.metric import SetMetric
from motet.metrics.names import GENERIC, PERSONAL, MetricName
from motet.metrics.run_metric import ClientScope, Finding, RunFacts, RunMetric
from motet.training.client import Client

BINS = 15
_WEIGHTED, _CORRECTED = "calibration.weighted", "calibration.corrected"


def ece(confidence: Tensor, correct: Tensor, bins: int = BINS, per_batch: int = 0) -> float | None:
    """Expected calibration error, Σ_b (n_b/n)·gap_b over bins b of confidence; None without samples.

    `confidence` is the largest softmax probability of each sample, `correct` whether its class was right. A
    `per_batch` of 10 is what SuPerFed's released code reports: the mean over consecutive batches of ten, in order.
    With so few samples in 15 bins it is far above the error of the whole set, and not comparable with it.
    """
    return _mean([float((share * gap).sum()) for share, gap in _gaps(confidence, correct, bins, per_batch)])


def mce(confidence: Tensor, correct: Tensor, bins: int = BINS, per_batch: int = 0) -> float | None:
    """Maximum calibration error: the largest gap_b of a bin that is not empty; arguments as in `ece`."""
    return _mean([float(gap.max()) for _, gap in _gaps(confidence, correct, bins, per_batch)])


def bins_of(confidence: Tensor, correct: Tensor, bins: int = BINS, weight: Tensor | None = None) -> Tensor:
    """Return for each bin (l, u] of confidence: samples, the sum of their confidence, how many are right.

    With weights, a sample counts as much as its own says.
    """
    edges = torch.linspace(0, 1, bins + 1, dtype=torch.float64)[1:]
    p = confidence.double()
    bin_of = torch.bucketize(p, edges).clamp_max(bins - 1)  # rounding may lift a confidence above one
    one = torch.ones_like(p) if weight is None else weight.double()
    weights = (one, one * p, one * correct.double())
    return torch.stack([torch.bincount(bin_of, weights=each, minlength=bins) for each in weights], 1)


def _gaps(confidence: Tensor, correct: Tensor, bins: int, per_batch: int) -> list[tuple[Tensor, Tensor]]:
    """Return n_b/n and |mean confidence − accuracy| of the bins (l, u], for each batch or for all samples at once."""
    batches = zip(_batches(confidence, per_batch), _batches(correct, per_batch), strict=True)
    return [_gaps_of(bins_of(p, hit, bins)) for p, hit in batches]


def _gaps_of(table: Tensor) -> tuple[Tensor, Tensor]:
    n, sure, right = table[table[:, 0] > 0].T
    return n / n.sum(), (sure - right).abs() / n


def _batches(values: Tensor, per_batch: int) -> tuple[Tensor, ...]:
    whole = values.double()
    return torch.split(whole, per_batch or max(1, len(whole))) if len(whole) else ()


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _of_logits(error: Callable[[Tensor, Tensor], float | None]) -> Callable[[Tensor, Tensor], float | None]:
    def value(logits: Tensor, y: Tensor) -> float | None:
        confidence, said = torch.softmax(logits, 1).max(1)
        return error(confidence, said == y)

    return value


_PAPER = "Naeini, Cooper and Hauskrecht, AAAI 2015; reported by SuPerFed"
ECE = SetMetric(
    "ece",
    "expected calibration error: by how much confidence and accuracy differ, over 15 bins of confidence",
    _PAPER,
    higher_is_better=False,
    worst=1.0,
    value=_of_logits(ece),
)
MCE = SetMetric(
    "mce",
    "maximum calibration error: the same for the bin in which they differ most",
    _PAPER,
    higher_is_better=False,
    worst=1.0,
    value=_of_logits(mce),
)


class Calibration(RunMetric):
    """The calibration diagram: counts in each bin on clients' own test data, added up over clients.

    Where no client keeps test data it is the common test set, each class weighted by its share of the client's training
    data (FED-ROD's Eq. 20), and each client weighs the same.
    """

    name: ClassVar[str] = "calibration"
    summary: ClassVar[str] = "the calibration diagram of both models over all clients' test data, and its ECE"
    paper: ClassVar[str] = "DeGroot and Fienberg 1983; Guo et al., ICML 2017"
    asks_clients: ClassVar[bool] = True
    needs_own_tests: ClassVar[bool] = True
    takes_common_test: ClassVar[bool] = True
    needs_generic: ClassVar[bool] = True

    def asked(self, run: RunFacts, client_id: int) -> Message:
        """Return whether to use the common test set, and by which weights."""
        corrected = run.scoring.class_weights == "count_corrected"
        return {_WEIGHTED: not run.has_own_tests, _CORRECTED: corrected}

    def at_client(self, here: ClientScope) -> Message:
        """Return three numbers for each bin and model; the samples themselves do not leave the client."""
        test, weight = here.client.data.test, None
        common = here.common_test(here.client.data) if here.message[_WEIGHTED] else None
        if common is not None:
            test = common.classes_only(here.client.counts > 0)
            weight = class_weights(test, here.client, corrected=bool(here.message[_CORRECTED]))
        models = {PERSONAL: here.heads().get(PERSONAL), GENERIC: here.generic()}
        there = {name: model for name, model in models.items() if model is not None and len(test)}
        return {name: _table(model, here, test, weight) for name, model in there.items()}

    def found(self, run: RunFacts, replies: Mapping[int, Message]) -> Finding:
        """Return one diagram per model."""
        finding = Finding()
        for name, words in ((PERSONAL, "personal models"), (GENERIC, "generic model")):
            tables = [tensor(reply, name) for reply in replies.values() if name in reply]
            if tables:
                table = torch.stack(tables).sum(0)
                share, gap = _gaps_of(table)
                figure = MetricName(name, run.test_data, self.name, "pooled")
                finding.figures[str(figure)] = float((share * gap).sum())
                finding.figures_learned.append(_diagram(name, words, table))
        return finding


def class_weights(samples: Samples, client: Client, corrected: bool) -> Tensor:
    """Return the weight of each sample of a common set for a client, Σ = 1: P_m(y), or P_m(y)/T_y if corrected."""
    counts = samples.counts(client.classes).clamp_min(1) if corrected else torch.ones(client.classes)
    weight = (client.counts.double() / counts)[samples.y]
    return weight / weight.sum()


def _table(model: nn.Module, here: ClientScope, test: Samples, weight: Tensor | None) -> Tensor:
    said = [(torch.softmax(logits, 1).max(1), y) for logits, y in here.answers(model, test)]
    confidence = torch.cat([top.values for top, _ in said])
    return bins_of(confidence, torch.cat([top.indices == y for top, y in said]), weight=weight)


def _diagram(model: str, words: str, table: Tensor) -> LearnedFigure:
    n, sure, right = table.T
    middle = [(b + 0.5) / len(n) for b in range(len(n))]

    shares = {"accuracy": right / n, "confidence": sure / n, "share of samples": n / n.sum()}
    return LearnedFigure.bars(
        f"calibration-{model}",
        f"Calibration of the {words}",
        "Where accuracy is below confidence the model is surer than it should be; bins with few samples say little.",
        {what: share.tolist() for what, share in shares.items()},  # NaN in an empty bin
        x=Axis("confidence (middle of the bin)", tuple(round(m, 4) for m in middle)),
        y="share",
    )
