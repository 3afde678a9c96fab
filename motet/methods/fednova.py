"""FedNova (Wang et al. 2020): clients that take more local steps do not pull harder."""

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from motet.messages.message import Message, number, tensor
from motet.messages.replies import Rule
from motet.methods.base import MethodEntry, Part, Serving, Training
from motet.methods.base.part import Acts


class FedNova(Part):
    """w ← w + (Σ p_i a_i)·Σ p_i (w_i − w)/a_i with a_i = ‖a_i‖₁, the client's plain steps (Eq. 8)

    p_i are FedAvg's weights. With local momentum a_i is how many plain steps went as far, as in the paper. A correction
    of another part, such as FedProx's, counts as part of the gradient. Only the net's own weights are normalized.
    """

    assumes_sgd: ClassVar[str] = "it normalizes by how far plain SGD steps go"
    acts: ClassVar[Acts] = "server"
    role: ClassVar[str | None] = "aggregation"
    without: ClassVar[Mapping[str, str]] = {"feddyn": "feddyn's server moves the mean by a rule of its own"}
    uploads: ClassVar[Mapping[str, Rule]] = {"fednova.a": "each"}
    serves_adaptation: ClassVar[bool] = False

    def after(self, t: Training, reply: Message) -> None:
        """a_i, unless nothing that travels was trained"""
        reply["fednova.a"] = max(1.0, t.descent.effective_steps)

    def combine(self, s: Serving, replies: Mapping[int, Message]) -> Tensor:
        """Σ p_i w_i, and for the net's own weights the rule"""
        assert s.sent is not None
        w, before = s.mean(replies, "w"), s.sent[s.own]
        n = torch.tensor([number(r, "n") if s.weighting == "samples" else 1.0 for r in replies.values()])
        p, a = n / n.sum(), torch.tensor([number(r, "fednova.a") for r in replies.values()])
        W = torch.stack([tensor(r, "w")[s.own] for r in replies.values()])
        w[s.own] = before + (p @ a) * ((p / a) @ (W - before))
        return w


ENTRY = MethodEntry("fednova", "every client's change counts per step that it took", "Wang et al. 2020", part=FedNova)
