"""FedBABU (Oh, Kim and Yun 2022): only the body learns and travels; the head stays at its random initialization."""

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from motet.methods.base import MethodEntry, Phase, Training
from motet.methods.fedper import FedPer
from motet.nets import Net


class FedBABU(FedPer):
    """θ ← SGD on f_i(θ, h₀) with a fixed head h₀, the same at all clients; the server averages θ uniformly.

    The head is the net's last layer with weights, as in the paper, also where a net's own split is earlier: a body
    cannot learn under a whole stack of random layers.
    The generic model is θ̄ under h₀. Personal models are fine-tuned, as in the paper: `fedbabu+ft`.
    """

    weighting: ClassVar[Literal["samples", "uniform"]] = "uniform"
    in_phases: ClassVar[bool] = True
    private_rests: ClassVar[bool] = True
    personalizes: ClassVar[bool] = False

    head: Literal["last", "split"] = Field(
        "last", description="what rests: the last layer, or all stages from net.head on"
    )

    def private(self, net: Net) -> tuple[str, ...]:
        """Return the name of the last layer, or of all stages from the split on."""
        own = [name for stage in net.stage_names for name, _ in net.get_submodule(stage).named_parameters(stage)]
        return net.head_names() if self.head == "split" else (own[-1].rpartition(".")[0] + ".",)

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
