"""FedDyn (Acar et al. 2021): a dynamic regularizer that makes local and global optima agree."""

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from motet.message import Message, State, number, tensor
from motet.methods.method import Facts
from motet.methods.part import Part, Training


class FedDyn(Part):
    """f_i(x) − ⟨h_i, x⟩ + (λ/2)‖x − w‖²; the server adds its own −h/λ to the mean.

    The linear term has a minus sign; FED-ROD's appendix prints a plus (FIDELITY 3.g7).
    """

    weighting: ClassVar[Literal["samples", "uniform"]] = "uniform"
    serves_adaptation: ClassVar[bool] = False
    role: ClassVar[str | None] = "drift correction"

    lam: float = Field(0.1, gt=0, description="λ, strength of the regularizer (FED-ROD's grid: 0.1, 0.01, 0.001)")

    def start(self, server: State, facts: Facts) -> None:
        """h = 0"""
        server["feddyn.h"] = torch.zeros(facts.trainable)
        server["feddyn.clients"] = facts.clients

    def before(self, t: Training, message: Message) -> None:
        """h_i is private and starts at zero."""
        h_i = t.client.private.get("feddyn.h_i", torch.zeros_like(t.shared))
        assert isinstance(h_i, Tensor)
        t["h_i"] = h_i

    def correct(self, t: Training) -> None:
        """∇ += −h_i + λ(x − w)"""
        t.g_shared.sub_(t["h_i"]).add_(t.shared - t.anchor, alpha=self.lam)

    def after(self, t: Training, reply: Message) -> None:
        """h_i ← h_i − λ(x − w)"""
        t.client.private["feddyn.h_i"] = t["h_i"] - self.lam * (t.shared - t.anchor)

    def aggregate(self, server: State, sent: Tensor, replies: Mapping[int, Message]) -> None:
        """h ← h − (λ/N) Σ (x_i − w);  w ← mean x_i − h/λ"""
        h = tensor(server, "feddyn.h")
        own = slice(len(sent) - len(h), None)  # before it lie statistics and what parts added: only averaged
        moved = sum((tensor(r, "w")[own] - sent[own] for r in replies.values()), torch.zeros_like(h))
        h = h - self.lam / number(server, "feddyn.clients") * moved
        w = tensor(server, "w").clone()
        w[own] -= h / self.lam
        server["feddyn.h"], server["w"] = h, w
