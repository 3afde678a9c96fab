"""Accuracy, with names that say which model, which test data, which weighting."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from motet.data import Samples

EVALUATION_BATCH = 200  # as fast as larger ones, whatever the C library does with large blocks


def right_per_class(model: nn.Module, samples: Samples, classes: int) -> Tensor:
    """How many samples of each class the model gets right: everything below comes from these counts."""
    model.eval()
    device = next(model.parameters()).device
    right = torch.zeros(classes, dtype=torch.int64)
    with torch.inference_mode():
        for x, y in samples.all_batches(EVALUATION_BATCH):
            hit = model(x.to(device)).argmax(1).cpu() == y
            right += torch.bincount(y[hit], minlength=classes)
    return right


def accuracy(right: Tensor, counts: Tensor) -> float | None:
    """Plain accuracy; None without samples."""
    total = int(counts.sum())
    return int(right.sum()) / total if total else None


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
    return float((weight * (right[present] / counts[present])).sum() / weight.sum())


@dataclass(frozen=True)
class Spread:
    """One figure per client, summed up."""

    mean: float
    by_samples: float
    std: float
    minimum: float
    worst_tenth: float


def spread(values: Sequence[float], samples: Sequence[int]) -> Spread | None:
    """Mean (uniform and by samples), population standard deviation, minimum, mean of the worst tenth."""
    if not values:
        return None
    array, weights = np.array(values), np.array(samples, dtype=float)
    tenth = np.sort(array)[: max(1, round(len(array) / 10))]
    by_samples = float(array @ weights / weights.sum()) if weights.sum() else float(array.mean())
    return Spread(float(array.mean()), by_samples, float(array.std()), float(array.min()), float(tenth.mean()))
