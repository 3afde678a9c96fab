"""FedDyn (Acar et al. 2021): a dynamic regularizer that makes local and global optima agree."""

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from motet.config.section import tried
from motet.messages.message import Message, tensor
from motet.messages.replies import Rule
from motet.methods.base import MethodEntry, Part, Serving, Training


class FedDyn(Part):
    """f_i(x) − ⟨h_i, x⟩ + (λ/2)‖x − w‖²; the server adds its own −h/λ to the mean.

    The linear term has a minus sign; FED-ROD's appendix prints a plus.
    """

    weighting: ClassVar[Literal["samples", "uniform"]] = "uniform"
    serves_adaptation: ClassVar[bool] = False
    role: ClassVar[str | None] = "drift correction"
    uploads: ClassVar[Mapping[str, Rule]] = {"w": "each"}  # for Σ (w_i − w)

    lam: float = Field(
        0.1,
        gt=0,
        description="λ, strength of the regularizer (FED-ROD's grid: 0.1, 0.01, 0.001)",
        json_schema_extra=tried(0.1, 0.01, 0.001),
    )

    def start(self, s: Serving) -> None:
        """h = 0"""
        s.state["feddyn.h"] = s.zeros()

    def before(self, t: Training, message: Message) -> None:
        """h_i is private and starts at zero."""
        h_i = t.client.private.get("feddyn.h_i", torch.zeros_like(t.shared))
        assert isinstance(h_i, Tensor)
        t["feddyn.h_i"] = h_i

    def correct(self, t: Training) -> None:
        """∇ += −h_i + λ(x − w)"""
        t.g_shared.sub_(t["feddyn.h_i"]).add_(t.shared - t.anchor, alpha=self.lam)

    def after(self, t: Training, reply: Message) -> None:
        """h_i ← h_i − λ(x − w)"""
        t.client.private["feddyn.h_i"] = t["feddyn.h_i"] - self.lam * (t.shared - t.anchor)

    def aggregate(self, s: Serving, replies: Mapping[int, Message]) -> None:
        """h ← h − (λ/N) Σ (x_i − w);  w ← mean x_i − h/λ"""
        before, mean = s.moved
        moved = sum((tensor(r, "w")[s.own] - before for r in replies.values()), s.zeros())
        h = tensor(s.state, "feddyn.h") - self.lam / s.facts.clients * moved
        s.put(mean - h / self.lam)
        s.state["feddyn.h"] = h


ENTRY = MethodEntry(
    "feddyn",
    "dynamic regularizer against client drift",
    "Acar et al. 2021",
    part=FedDyn,
    stays="its h_i",
)
