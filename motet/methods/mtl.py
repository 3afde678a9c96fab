"""Multi-task learning by regularization: every client has its own model, near the mean of all (after Smith et al.
2017)."""

import math
from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field
from torch import Tensor

from motet.config.section import tried
from motet.messages.message import Message, tensor
from motet.methods.averaging import Averaging
from motet.methods.base import Facts, MethodEntry, Part, Training
from motet.methods.fedprox import FedProx
from motet.nets import Net
from motet.training.client import Client


class MTL(Averaging):
    """min Σ_i f_i(w_i) + (λ/2)‖w_i − w̄‖², with w̄ the mean of the clients' models as the server last sent it.

    A client keeps its w_i and uploads it for the mean, which is also the generic model. MOCHA's dual solver is not
    used, as in the papers that report MTL; `penalty=lineage` is what their published codes have.
    """

    carries: ClassVar[tuple[str, ...]] = ("*",)
    recipe: ClassVar[Literal["samples", "uniform"]] = "uniform"

    class Options(Averaging.Options):
        """Options of `mtl(...)`."""

        lam: float = Field(
            0.1, ge=0, description="λ, how strongly w_i stays near the mean", json_schema_extra=tried(0.01, 0.1, 1.0)
        )
        penalty: Literal["mean", "lineage"] = Field(
            "mean", description="distance to the mean, or 10^(−p)·(‖W‖² + tr(WΩWᵀ)) as circulated, without λ"
        )

    def __init__(self, net: Net, options: Options, parts: Sequence[Part], facts: Facts):
        super().__init__(net, options, parts, facts)
        self.near = FedProx(mu=options.lam) if options.penalty == "mean" else Lineage(m=facts.cohort)

    def round_training(self, client: Client, message: Message) -> Training:
        """Return a training from the client's own w_i; in its first round, from what the server sent."""
        parts = (*self.parts, self.near)
        return self.training(client, message, parts, client.descent(), self.own(client, message))

    def end_round(self, t: Training) -> Message:
        """Keep w_i, and return it as the reply."""
        t.client.private["mtl.w"] = t.w
        return super().end_round(t)

    def own(self, client: Client, message: Message) -> Tensor:
        """Return the client's w_i."""
        return tensor({"mtl.w": self.received(client, message), **client.private}, "mtl.w")

    def personal_weights(self, client: Client, message: Message) -> Tensor | None:
        """w_i, or the mean at a client that never trained"""
        return self.own(client, message)


class Lineage(Part):
    """10^(−p)·(‖W‖² + tr(WΩWᵀ)), p = ⌊log₁₀ d + 1⌋ + 1.

    W has the cohort's m models as columns, of which only w_i moves; Ω is the elementwise square of I − 11ᵀ/m. (In one
    code its gradient is lost, so that MTL is Local.)
    """

    m: int = Field(2, ge=1, description="clients in a round")

    def correct(self, t: Training) -> None:
        """∇ += 2·10^(−p)·(w_i + (1 − 1/m)²·w_i + (1/m²)·Σ_{j≠i} w_j), where the m − 1 others are at their mean"""
        m, scale = self.m, 10.0 ** -(math.floor(math.log10(max(1, len(t.shared))) + 1) + 1)
        t.g_shared.add_(t.shared * (1 + (1 - 1 / m) ** 2) + t.anchor * ((m - 1) / m**2), alpha=2 * scale)


ENTRY = MethodEntry(
    "mtl",
    "every client its own model, near the mean of all",
    "after Smith et al. 2017",
    whole=MTL,
    stays="its own model",
)
