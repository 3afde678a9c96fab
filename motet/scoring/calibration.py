"""Calibration: whether a model is as often right as it is confident (SuPerFed's ECE and MCE)."""

import torch
from torch import Tensor


def ece(confidence: Tensor, correct: Tensor, bins: int = 15, per_batch: int = 0) -> float | None:
    """Expected calibration error, Σ_b (n_b/n)·gap_b over bins b of confidence; None without samples.

    `confidence` is the largest softmax probability of each sample, `correct` whether its class was right. A
    `per_batch` of 10 is what SuPerFed's released code reports: the mean over consecutive batches of ten, in order.
    With so few samples in 15 bins it is far above the error of the whole set, and not comparable with it.
    """
    return _mean([float((share * gap).sum()) for share, gap in _gaps(confidence, correct, bins, per_batch)])


def mce(confidence: Tensor, correct: Tensor, bins: int = 15, per_batch: int = 0) -> float | None:
    """Maximum calibration error, the largest gap_b of a bin that is not empty; otherwise as `ece`."""
    return _mean([float(gap.max()) for _, gap in _gaps(confidence, correct, bins, per_batch)])


def _gaps(confidence: Tensor, correct: Tensor, bins: int, per_batch: int) -> list[tuple[Tensor, Tensor]]:
    """For each batch, or for all samples at once: n_b/n and |mean confidence − accuracy| of the bins (l, u]."""
    edges = torch.linspace(0, 1, bins + 1, dtype=torch.float64)[1:]
    found = []
    for p, hit in zip(_batches(confidence, per_batch), _batches(correct, per_batch), strict=True):
        bin_of = torch.bucketize(p, edges).clamp_max(bins - 1)  # rounding may lift a confidence above one
        n = torch.bincount(bin_of, minlength=bins)
        surplus = torch.bincount(bin_of, weights=p - hit, minlength=bins)
        full = n > 0
        found.append((n[full] / n.sum(), surplus[full].abs() / n[full]))
    return found


def _batches(values: Tensor, per_batch: int) -> tuple[Tensor, ...]:
    whole = values.double()
    return torch.split(whole, per_batch or max(1, len(whole))) if len(whole) else ()


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None
