"""SCAFFOLD (Karimireddy et al. 2020), option II: control variates against client drift."""

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from motet.message import Message, State, number, tensor
from motet.methods.averaging import average
from motet.methods.method import Facts
from motet.methods.part import Part, Training


class Scaffold(Part):
    """x ← x − η(∇f_i(x) + c − c_i), with c the mean of the clients' c_i."""

    weighting: ClassVar[Literal["samples", "uniform"]] = "uniform"
    serves_adaptation: ClassVar[bool] = False
    serves_prediction: ClassVar[bool] = False
    role: ClassVar[str | None] = "drift correction"

    eta_g: float = Field(1.0, gt=0, description="the server's step size")

    def start(self, server: State, facts: Facts) -> None:
        """c = 0"""
        server["scaffold.c"] = torch.zeros(facts.trainable)
        server["scaffold.clients"], server["scaffold.by_samples"] = facts.clients, facts.by_samples

    def broadcast(self, server: State, client_id: int, message: Message) -> None:
        """Send c with w."""
        message["scaffold.c"] = server["scaffold.c"]

    def before(self, t: Training, message: Message) -> None:
        """c_i is private and starts at zero."""
        c = tensor(message, "scaffold.c")
        c_i = t.client.private.get("scaffold.c_i", torch.zeros_like(c))
        assert isinstance(c_i, Tensor)
        t["c"], t["c_i"], t["c - c_i"] = c, c_i, c - c_i

    def correct(self, t: Training) -> None:
        """∇ += c − c_i"""
        t.g_shared.add_(t["c - c_i"])

    def after(self, t: Training, reply: Message) -> None:
        """c_i⁺ = c_i − c + (w − x)/(Kη), where K counts plain steps: momentum's go further (FIDELITY 9)."""
        new = (t.anchor - t.shared).div_(t.descent.effective_steps * t.descent.lr).sub_(t["c - c_i"])
        t.client.private["scaffold.c_i"] = new
        reply["scaffold.dc"] = new - t["c_i"]

    def aggregate(self, server: State, sent: Tensor, replies: Mapping[int, Message]) -> None:
        """w ← w + η_g·mean Δx;  c ← c + (|S|/N)·mean Δc, where both means weigh the clients alike"""
        c, w = tensor(server, "scaffold.c"), tensor(server, "w").clone()
        if self.eta_g != 1:
            own = slice(len(w) - len(c), None)  # before it lie statistics and what parts added: only averaged
            w[own] = sent[own] + self.eta_g * (w[own] - sent[own])
        mean = average(replies, "scaffold.dc", "samples" if server["scaffold.by_samples"] else "uniform")
        server["w"], server["scaffold.c"] = w, c + len(replies) / number(server, "scaffold.clients") * mean
