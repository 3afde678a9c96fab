"""A model of a run as users have it: it prepares its input itself, and predicts as scikit-learn's do."""

import re
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from motet.data import Prepare
from motet.errors import MotetError, shown

BATCH = 1000  # samples that a prediction computes at a time

Floats = npt.NDArray[np.float64]


class RawModel(nn.Module):
    """A model that prepares its input itself: it takes samples as they are in the data file.

    Called, it returns logits, or numbers [n, 1] in the unit of the label where that is a number. `predict`,
    `predict_proba` and `classes_` are as in scikit-learn; a model of numbers has `predict` alone.
    """

    def __init__(self, model: nn.Module, prepare: Prepare, class_names: Sequence[str], threshold: float | None = None):
        super().__init__()
        self.model, self.prepare = deepcopy(model), prepare
        self.class_names = list(class_names)
        self.threshold = threshold
        """Of two classes: the probability from which on the second is predicted; None: the more probable one is."""
        self.eval()

    def forward(self, x: npt.ArrayLike | Tensor) -> Tensor:
        """Return the logits of a batch of samples, or the numbers that are predicted, without gradients."""
        return self._logits(self.prepare.raw(x))

    @property
    def predicts_numbers(self) -> bool:
        """Return whether the label is a number rather than a class."""
        return self.prepare.target is not None

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """Return the classes in the order of `predict_proba`: their names, or whole numbers where all names are."""
        self._need_classes("classes_")
        return classes_of(self.class_names)

    def predict_proba(self, x: Any) -> Floats:
        """Return the probability of every class for each sample, [n, classes].

        `x` is samples as the data file has them: an array; for a table also a data frame, an Arrow table, a dictionary
        or several, of which columns that the model does not need are ignored.
        """
        self._need_classes("predict_proba")
        return self.shares(self.prepare.stored(x))

    def predict(self, x: Any) -> npt.NDArray[Any]:
        """Return the class of each sample, as `classes_` has it, or its number; `x` as for `predict_proba`."""
        if self.predicts_numbers:
            return self.shares(self.prepare.stored(x))[:, 0]
        return self.classes_[self.decided(self.predict_proba(x))]

    def shares(self, stored: Tensor) -> Floats:
        """Return the probability of every class for samples in stored layout, computed batch by batch.

        A model of numbers has one column: the number that it predicts.
        """
        found = [self._logits(self.prepare(part)).double().cpu() for part in torch.split(stored, BATCH)]
        if not self.predicts_numbers:
            found = [torch.softmax(logits, 1) for logits in found]
        return torch.cat(found).numpy() if len(stored) else np.zeros((0, len(self.class_names)))

    def decided(self, shares: Floats) -> npt.NDArray[np.int64]:
        """Return the number of the class that is predicted for each row of probabilities."""
        if self.threshold is not None:
            return (shares[:, 1] >= self.threshold).astype(np.int64)
        found: npt.NDArray[np.int64] = np.argmax(shares, 1)
        return found

    def _logits(self, prepared: Tensor) -> Tensor:
        device = next(self.model.parameters()).device
        with torch.no_grad():
            logits: Tensor = self.model(prepared.to(device))
        target = self.prepare.target
        return logits if target is None else target.unscaled(logits).to(logits.dtype)

    def _need_classes(self, what: str) -> None:
        if self.predicts_numbers:
            raise MotetError(f"{what} is for classes, and this model predicts the number {shown(self.class_names[0])}")


def classes_of(names: Sequence[str]) -> npt.NDArray[Any]:
    """Return names of classes as an array: of whole numbers where every name is one as Python writes it."""
    whole = all(re.fullmatch(r"0|-?[1-9][0-9]{0,17}", name, re.ASCII) for name in names)
    return np.array([int(name) for name in names] if whole else list(names))
