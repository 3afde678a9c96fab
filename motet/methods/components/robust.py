"""What takes the place of the mean where some clients may be malicious."""

from collections.abc import Mapping
from typing import ClassVar, Literal

import torch
from torch import Tensor

from motet.contract import Part, Serving
from motet.contract.part import Acts
from motet.message import Message, tensor


class Robust(Part):
    """One rule for all that travels, statistics too. Clients weigh alike: an attacker says how many samples it has."""

    acts: ClassVar[Acts] = "server"
    role: ClassVar[str | None] = "aggregation"
    weighting: ClassVar[Literal["samples", "uniform"]] = "uniform"
    serves_adaptation: ClassVar[bool] = False

    def combine(self, s: Serving, replies: Mapping[int, Message]) -> Tensor:
        """The rule on the clients' w, a row each."""
        return self.choose(torch.stack([tensor(reply, "w") for reply in replies.values()]))

    def choose(self, W: Tensor) -> Tensor:
        """One row for all."""
        raise NotImplementedError


def middle(W: Tensor, cut: int) -> Tensor:
    """The mean of every coordinate without its `cut` smallest and its `cut` largest values."""
    return W.sort(0).values[cut : len(W) - cut].mean(0)
