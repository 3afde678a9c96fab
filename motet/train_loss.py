"""The loss of a client's training: the mean over its last epoch, each sample alike.

Losses are there anyway when a gradient is taken. They are kept as they are, on their device, and become one number
when the training is over: no step waits for it, and no bit of the training changes.
"""

import math
from collections import deque

import torch
from torch import Tensor


class TrainLoss:
    """The losses of the last batches, as many as an epoch has."""

    def __init__(self) -> None:
        self._last: deque[tuple[Tensor, int]] = deque(maxlen=0)

    def begin(self, batches: int) -> None:
        """A stretch of training with so many batches in an epoch; what came before it is forgotten."""
        self._last = deque(maxlen=batches)

    def add(self, loss: Tensor, samples: int) -> None:
        """The mean loss of one batch."""
        self._last.append((loss.detach(), samples))

    def mean(self) -> float | None:
        """Over the last epoch, or over all steps where there were fewer; None where none was told, or no number."""
        if not self._last:
            return None
        losses = torch.stack([loss for loss, _ in self._last]).double().cpu()
        samples = torch.tensor([n for _, n in self._last], dtype=torch.float64)
        found = float(losses @ samples / samples.sum())
        return found if math.isfinite(found) else None
