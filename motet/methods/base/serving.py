"""The server's turn: what a part may read and change there, as `Training` is at a client."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from motet.messages.message import Message, State, number, tensor
from motet.messages.replies import Weighting, average
from motet.methods.base.method import Facts
from motet.nets import Net
from motet.training.flat_weights import Layout
from motet.training.randomness import generator

SERVER = -2  # whose randomness it is; the pooled client is -1


@dataclass(frozen=True)
class Serving:
    """`state` is the server's memory: put new tensors into it, never change one in place."""

    state: State
    facts: Facts
    net: Net
    layout: Layout
    weighting: Weighting = "samples"  # how the models are averaged
    sent: Tensor | None = None  # state["w"] before this round's average

    @property
    def own(self) -> slice:
        """Where the net's own travelling trainable weights are in w: no statistics, nothing that parts added."""
        return self.layout.shared_trainable

    def zeros(self) -> Tensor:
        """A vector as long as these weights."""
        return torch.zeros(self.own.stop - self.own.start)

    @property
    def moved(self) -> tuple[Tensor, Tensor]:
        """These weights as they were sent, and as they are after the average."""
        assert self.sent is not None, "only after a round's average"
        return self.sent[self.own], tensor(self.state, "w")[self.own]

    def put(self, own: Tensor) -> None:
        """Give the server's model other own weights."""
        w = tensor(self.state, "w").clone()
        w[self.own] = own
        self.state["w"] = w

    @property
    def round(self) -> int:
        """Which round it is; 0 before the first."""
        return int(number(self.state, "round")) if "round" in self.state else 0

    def rng(self, purpose: str) -> torch.Generator:
        """The server's randomness in this round, for one purpose."""
        return generator(self.facts.seed, purpose, self.round, SERVER)

    def mean(self, replies: Mapping[int, Message], name: str) -> Tensor:
        """The mean of a field, weighted as the models are."""
        return average(replies, name, self.weighting)
