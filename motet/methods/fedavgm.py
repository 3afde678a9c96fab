"""FedAvgM (Hsu et al. 2019), and the base class of all server optimizers."""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field
from torch import Tensor

from motet.config.section import tried
from motet.messages.message import Message, tensor
from motet.methods.base import MethodEntry, Part, Serving
from motet.methods.base.part import Acts


class ServerOptimizer(Part):
    """Use Δ = mean w_i − w as a gradient on the net's own weights; the rest of w stays as averaged."""

    acts: ClassVar[Acts] = "server"
    role: ClassVar[str | None] = "server optimizer"
    without: ClassVar[Mapping[str, str]] = {"feddyn": "feddyn's server moves the mean by a rule of its own"}
    serves_adaptation: ClassVar[bool] = False

    eta: float = Field(1.0, gt=0, description="η, the server's step size")

    def aggregate(self, s: Serving, replies: Mapping[int, Message]) -> None:
        """w ← w + η·step(Δ)"""
        before, after = s.moved
        s.put(before + self.eta * self.step(s, after - before))

    def step(self, s: Serving, delta: Tensor) -> Tensor:
        """Return the direction of the step, and keep the optimizer's memory in the server state."""
        raise NotImplementedError


class FedAvgM(ServerOptimizer):
    """v ← β·v + Δ;  w ← w + η·v, without dampening"""

    beta: float = Field(
        0.9,
        ge=0,
        lt=1,
        description="β, the server's momentum (the paper's grid: 0 to 0.997)",
        json_schema_extra=tried(0.0, 0.7, 0.9, 0.97, 0.99, 0.997),
    )

    def start(self, s: Serving) -> None:
        """v = 0"""
        s.state["fedavgm.v"] = s.zeros()

    def step(self, s: Serving, delta: Tensor) -> Tensor:
        """v ← β·v + Δ"""
        v = s.state["fedavgm.v"] = self.beta * tensor(s.state, "fedavgm.v") + delta
        return v


ENTRY = MethodEntry("fedavgm", "momentum at the server", "Hsu, Qi and Brown 2019", part=FedAvgM)
