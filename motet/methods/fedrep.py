"""FedRep (Collins et al. 2021): first the client's own head on the shared body, then the body under the fresh head."""

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from motet.config.section import tried
from motet.methods.base import MethodEntry, Phase, Training
from motet.methods.fedper import FedPer


class FedRep(FedPer):
    """h_i ← SGD on f_i(φ, h_i) for E_h epochs with φ fixed; then φ ← SGD for E_b epochs with h_i fixed.

    The server averages φ uniformly (Algorithm 1). A new client learns a head alone.
    """

    weighting: ClassVar[Literal["samples", "uniform"]] = "uniform"
    in_phases: ClassVar[bool] = True

    head_epochs: int = Field(
        10, ge=0, description="E_h, epochs of the head in a round (the paper: 10)", json_schema_extra=tried(1, 5, 10)
    )
    body_epochs: int = Field(0, ge=0, description="E_b, epochs of the body after it; 0: local.epochs")

    def phases(self, t: Training) -> Sequence[Phase]:
        """Train the head, then the body."""
        head, body = t.layout.private_trainable, t.layout.shared_trainable
        if t.client.data.new:
            return [Phase(head)]
        return [Phase(head, self.head_epochs), Phase(body, self.body_epochs or None)]


ENTRY = MethodEntry(
    "fedrep",
    "FedPer that learns head and body one after the other",
    "Collins et al. 2021",
    part=FedRep,
    stays="the head",
    down="body",
    up="body",
)
