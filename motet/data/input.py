"""The input of a net (`Input`): the kind of its samples, their shape, their vocabulary."""

from dataclasses import dataclass

import torch
from torch import Tensor

from motet.config.data_section import SampleKind
from motet.errors import MotetError

_AXES: dict[SampleKind, tuple[str, ...]] = {
    "image": ("channels", "height", "width"),
    "signal": ("channels", "time"),
    "vector": ("features",),
    "tokens": ("length",),
}


@dataclass(frozen=True)
class Input:
    """One network input: images (C, H, W), signals (C, T) and vectors (F,) of numbers, or (T,) tokens."""

    kind: SampleKind
    shape: tuple[int, ...]
    vocabulary: int = 0
    """How many different tokens there are; 0 for what is not text."""

    def __post_init__(self) -> None:
        axes = _AXES[self.kind]
        if len(self.shape) != len(axes) or min(self.shape) < 1:
            raise MotetError(
                f"{self.kind} input has shape {self.shape}; accepted: ({', '.join(axes)}), each at least 1"
            )
        if (self.vocabulary > 0) != (self.kind == "tokens"):
            raise MotetError(
                f"{self.kind} input has a vocabulary of {self.vocabulary}; accepted: 1 or more for tokens, 0 otherwise"
            )

    def __str__(self) -> str:
        words = f" of a vocabulary of {self.vocabulary}" if self.vocabulary else ""
        return f"{self.kind} {self.shape}{words}"

    def example(self, batch: int = 1) -> Tensor:
        """A batch that says nothing, of the right shape and type, to try a net with."""
        return torch.zeros(
            batch, *self.shape, dtype=torch.int64 if self.kind == "tokens" else torch.get_default_dtype()
        )
