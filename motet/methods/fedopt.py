"""FedAdam, FedYogi and FedAdagrad (Reddi et al. 2021): adaptive step sizes per weight, at the server."""

from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from motet.config.section import tried
from motet.messages.message import tensor
from motet.methods.base import MethodEntry, Serving
from motet.methods.fedavgm import ServerOptimizer


class Adaptive(ServerOptimizer):
    """m ← β₁m + (1 − β₁)Δ;  v ← as below;  w ← w + η·m/(√v + τ) (Algorithm 2)

    There is no bias correction, as in the paper; Flower's FedAdam has one. v starts at τ², the least that the paper
    allows; Flower and others start at zero, which `v0 = zero` does.
    """

    adapts: ClassVar[str]  # the name under which the server keeps m and v

    eta: float = Field(
        0.03,
        gt=0,
        description="η, the server's step size (the paper's grid: 1e-3 to 10)",
        json_schema_extra=tried(1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0),
    )
    beta1: float = Field(0.9, ge=0, lt=1, description="β₁, momentum of the change")
    tau: float = Field(1e-3, gt=0, description="τ, how little a weight's changes are adapted to")
    v0: Literal["tau2", "zero"] = Field("tau2", description="v before the first round: τ², or 0")

    def start(self, s: Serving) -> None:
        """m = 0, v = τ²"""
        s.state[f"{self.adapts}.m"] = s.zeros()
        s.state[f"{self.adapts}.v"] = s.zeros() + (self.tau**2 if self.v0 == "tau2" else 0.0)

    def step(self, s: Serving, delta: Tensor) -> Tensor:
        """m/(√v + τ)"""
        m = torch.lerp(delta, tensor(s.state, f"{self.adapts}.m"), self.beta1)
        v = self.second(tensor(s.state, f"{self.adapts}.v"), delta.square())
        s.state[f"{self.adapts}.m"], s.state[f"{self.adapts}.v"] = m, v
        return m / (v.sqrt() + self.tau)

    def second(self, v: Tensor, square: Tensor) -> Tensor:
        """Return the next v, from Δ²."""
        raise NotImplementedError


class FedAdam(Adaptive):
    """v ← β₂v + (1 − β₂)Δ²"""

    adapts: ClassVar[str] = "fedadam"

    beta2: float = Field(0.99, ge=0, lt=1, description="β₂, memory of the squares")

    def second(self, v: Tensor, square: Tensor) -> Tensor:
        """β₂v + (1 − β₂)Δ²"""
        return torch.lerp(square, v, self.beta2)


class FedYogi(Adaptive):
    """v ← v − (1 − β₂)Δ²·sign(v − Δ²)"""

    adapts: ClassVar[str] = "fedyogi"

    beta2: float = Field(0.99, ge=0, lt=1, description="β₂, memory of the squares")

    def second(self, v: Tensor, square: Tensor) -> Tensor:
        """v − (1 − β₂)Δ²·sign(v − Δ²)"""
        return v - (1 - self.beta2) * square * (v - square).sign()


class FedAdagrad(Adaptive):
    """v ← v + Δ², and no momentum unless asked for"""

    adapts: ClassVar[str] = "fedadagrad"

    eta: float = Field(
        0.01,
        gt=0,
        description="η, the server's step size (the paper's grid: 1e-3 to 10)",
        json_schema_extra=tried(1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0),
    )
    beta1: float = Field(0.0, ge=0, lt=1, description="β₁, momentum of the change (the paper: none)")

    def second(self, v: Tensor, square: Tensor) -> Tensor:
        """v + Δ²"""
        return v + square


ENTRIES = (
    MethodEntry("fedadam", "Adam at the server", "Reddi et al. 2021", part=FedAdam),
    MethodEntry("fedyogi", "Yogi at the server", "Reddi et al. 2021", part=FedYogi),
    MethodEntry("fedadagrad", "Adagrad at the server", "Reddi et al. 2021", part=FedAdagrad),
)
