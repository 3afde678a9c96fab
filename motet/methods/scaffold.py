"""SCAFFOLD (Karimireddy et al. 2020), option II: control variates against client drift."""

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from motet.messages.message import Message, tensor
from motet.messages.replies import Rule
from motet.methods.base import MethodEntry, Part, Serving, Training


class Scaffold(Part):
    """x ← x − η(∇f_i(x) + c − c_i), with c the mean of the clients' c_i."""

    assumes_sgd: ClassVar[str] = "its control variates c_i are mean gradients of SGD steps"
    weighting: ClassVar[Literal["samples", "uniform"]] = "uniform"
    uploads: ClassVar[Mapping[str, Rule]] = {"scaffold.dc": "mean"}
    serves_adaptation: ClassVar[bool] = False
    serves_prediction: ClassVar[bool] = False
    role: ClassVar[str | None] = "drift correction"

    eta_g: float = Field(1.0, gt=0, description="the server's step size")

    def start(self, s: Serving) -> None:
        """c = 0"""
        s.state["scaffold.c"] = s.zeros()

    def broadcast(self, s: Serving, client_id: int, message: Message) -> None:
        """Send c with w."""
        message["scaffold.c"] = s.state["scaffold.c"]

    def before(self, t: Training, message: Message) -> None:
        """c_i is private and starts at zero."""
        c = tensor(message, "scaffold.c")
        c_i = t.client.private.get("scaffold.c_i", torch.zeros_like(c))
        assert isinstance(c_i, Tensor)
        t["scaffold.c_i"], t["scaffold.c - c_i"] = c_i, c - c_i

    def correct(self, t: Training) -> None:
        """∇ += c − c_i"""
        t.g_shared.add_(t["scaffold.c - c_i"])

    def after(self, t: Training, reply: Message) -> None:
        """c_i⁺ = c_i − c + (w − x)/(Kη), where K counts plain steps: those with momentum go further."""
        new = (t.anchor - t.shared).div_(t.descent.effective_steps * t.descent.lr).sub_(t["scaffold.c - c_i"])
        t.client.private["scaffold.c_i"] = new
        reply["scaffold.dc"] = new - t["scaffold.c_i"]

    def aggregate(self, s: Serving, replies: Mapping[int, Message]) -> None:
        """w ← w + η_g·mean Δx;  c ← c + (|S|/N)·mean Δc, where both means weigh the clients alike"""
        if self.eta_g != 1:
            before, after = s.moved
            s.put(before + self.eta_g * (after - before))
        share = len(replies) / s.facts.clients
        s.state["scaffold.c"] = tensor(s.state, "scaffold.c") + share * s.mean(replies, "scaffold.dc")


ENTRY = MethodEntry(
    "scaffold",
    "control variates against client drift",
    "Karimireddy et al. 2020",
    part=Scaffold,
    stays="its control variate c_i",
    down="2",
    up="2",
)
