"""FedBABU (Oh, Kim and Yun 2022): only the body learns and travels; the head stays at its random initialization."""

from collections.abc import Sequence
from typing import ClassVar, Literal

from motet.methods.base import MethodEntry, Phase, Training
from motet.methods.fedper import FedPer


class FedBABU(FedPer):
    """θ ← SGD on f_i(θ, h₀) with a fixed head h₀, the same at all clients; the server averages θ uniformly.

    The generic model is θ̄ under h₀. Personal models are fine-tuned, as in the paper: `fedbabu+ft`.
    """

    weighting: ClassVar[Literal["samples", "uniform"]] = "uniform"
    in_phases: ClassVar[bool] = True
    private_rests: ClassVar[bool] = True
    personalizes: ClassVar[bool] = False

    def phases(self, t: Training) -> Sequence[Phase]:
        """Train the body alone; when a client adapts, body and head."""
        return [Phase(t.layout.trainable if t.client.data.new else t.layout.shared_trainable)]


ENTRY = MethodEntry(
    "fedbabu",
    "a shared body learns under a head at rest; +ft personalizes",
    "Oh et al. 2022",
    part=FedBABU,
    down="body",
    up="body",
)
