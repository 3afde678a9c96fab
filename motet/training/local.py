"""The one local training loop: an optimizer on the flat weights, over a client's batches."""

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from motet.config.sections import LocalSettings
from motet.data import Samples
from motet.errors import Diverged
from motet.training.flat_weights import is_finite
from motet.training.optimizers import optimizer_of
from motet.training.randomness import layers_draw_by


class TrainLoss:
    """Collects the losses of the last batches, as many as an epoch has."""

    def __init__(self) -> None:
        self._last: deque[tuple[Tensor, int]] = deque(maxlen=0)

    def begin(self, batches: int) -> None:
        """Start over for a training with this many batches per epoch."""
        self._last = deque(maxlen=batches)

    def add(self, loss: Tensor, samples: int) -> None:
        """Add the mean loss of one batch of this many samples."""
        self._last.append((loss.detach(), samples))

    def mean(self) -> float | None:
        """Return the mean over the last epoch, or over all steps if there were fewer; None without a finite loss."""
        if not self._last:
            return None
        losses = torch.stack([loss for loss, _ in self._last]).double().cpu()
        samples = torch.tensor([n for _, n in self._last], dtype=torch.float64)
        found = float(losses @ samples / samples.sum())
        return found if math.isfinite(found) else None


NOT_FINITE = "training left the finite numbers (NaN or infinity in the weights)"
GATHERED = 400  # samples that are gathered and prepared at a time; the batches are views of them


@dataclass
class Descent:
    """One local training: its batches, step size and momentum."""

    settings: LocalSettings
    lr: float
    rng: torch.Generator
    epochs: int | None = None  # None: as the settings say, which may count steps instead
    velocity: Tensor | None = None
    augment: torch.Generator | None = None  # randomness of samples that vary in training
    joins_lone: bool = False  # a last batch of one sample joins the one before, for batch normalization
    clipped_apart: tuple[slice, ...] = ()  # slices of the weights whose gradients are clipped by their own norm
    told: TrainLoss | None = None  # collects the losses; None: they are not computed
    steps: int = field(default=0, init=False)

    def count(self, n: int) -> int:
        """Return the number of steps for n samples."""
        if self.epochs is None and self.settings.steps:
            return self.settings.steps
        return len(self.sizes(n)) * (self.settings.epochs if self.epochs is None else self.epochs)

    def sizes(self, n: int) -> list[int]:
        """Return the sizes of the batches of an epoch; a client with less than one batch keeps its only one."""
        size = self.settings.batch
        whole, rest = divmod(n, size)
        if rest == 1 and whole and self.joins_lone and not self.settings.drop_last:
            return [size] * (whole - 1) + [size + 1]
        return [size] * whole + [rest] * bool(rest and not (whole and self.settings.drop_last))

    def batches(self, samples: Samples) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield shuffled batches of the client's samples, epoch after epoch."""
        sizes, n = self.sizes(len(samples)), len(samples)
        at_once = max(1, GATHERED // self.settings.batch)
        epochs = self.settings.epochs if self.epochs is None else self.epochs
        limit = self.settings.steps if self.epochs is None else 0
        epoch = 0
        while limit or epoch < epochs:
            order, end = torch.randperm(n, generator=self.rng), 0
            for first in range(0, len(sizes), at_once):  # one gather for several batches
                some = sizes[first : first + at_once]
                start, end = end, end + sum(some)
                x, y = samples.batch(order[start:end], self.augment)
                for batch in zip(x.split_with_sizes(some), y.split_with_sizes(some), strict=True):
                    self.steps += 1
                    yield batch
                    if self.steps == limit:
                        return
            epoch += 1

    def note(self, loss: Tensor, samples: int) -> None:
        """Record the mean loss of a batch; a method with its own training loop calls this too."""
        if self.told is not None:
            self.told.add(loss, samples)

    @property
    def effective_steps(self) -> float:
        """The number of equivalent plain steps: with momentum m from rest, Σ_{j≤K} (1 − m^j)/(1 − m) instead of K."""
        m = self.settings.momentum
        return (self.steps - m * (1 - m**self.steps) / (1 - m)) / (1 - m)

    def run(self, samples: Samples, w: Tensor, g: Tensor, gradient: Callable[[Tensor, Tensor], None]) -> None:
        """Descend: for every batch `gradient(x, y)` adds the gradient to g, then the optimizer moves w.

        With SGD g holds the momentum too, so `gradient` must add to g and not read it.
        """
        optimizer = optimizer_of(self.settings, self.lr, w, g, self.velocity, self.clipped_apart)
        if self.told is not None:
            self.told.begin(len(self.sizes(len(samples))))
        device = w.device
        with layers_draw_by(self.rng):
            for x, y in self.batches(samples):
                optimizer.begin()
                gradient(x.to(device), y.to(device))
                optimizer.move()
        self.velocity = optimizer.velocity()
        if not is_finite(w):
            raise Diverged(NOT_FINITE)
