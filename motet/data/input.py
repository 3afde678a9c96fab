"""What data hands to a net: the kind of its samples, their shape, their vocabulary."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Kind = Literal["image", "signal", "vector", "tokens"]


@dataclass(frozen=True)
class Input:
    """One network input: images (C, H, W), signals (C, T) and vectors (F,) of numbers, or (T,) tokens."""

    kind: Kind
    shape: tuple[int, ...]
    vocabulary: int = 0
    """How many different tokens there are; 0 for what is not text."""

    def example(self, batch: int = 1) -> Tensor:
        """A batch that says nothing, of the right shape and type, to try a net with."""
        return torch.zeros(
            batch, *self.shape, dtype=torch.int64 if self.kind == "tokens" else torch.get_default_dtype()
        )
