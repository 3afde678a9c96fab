"""The server's side of a round: what a part may read and change there, as `Training` is at a client."""

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

SERVER = -2  # stands for the server where a client's id seeds randomness; the pooled client is -1


@dataclass(frozen=True)
class Serving:
    """What a part's hooks at the server may read and change.

    `state` is the server state, which is saved with checkpoints. Put new tensors into it, never change one in place.
    """

    state: State
    facts: Facts
    net: Net
    layout: Layout
    weighting: Weighting = "samples"  # how clients are weighted in the mean of their models
    sent: Tensor | None = None  # state["w"] before this round's average

    @property
    def own(self) -> slice:
        """Return where in w the net's own trainable weights are that travel: no statistics, nothing added by parts."""
        return self.layout.shared_trainable

    def zeros(self) -> Tensor:
        """Return a vector of zeros as long as the `own` weights."""
        return torch.zeros(self.own.stop - self.own.start)

    @property
    def moved(self) -> tuple[Tensor, Tensor]:
        """Return the `own` weights as they were sent in this round, and as they are after the average."""
        assert self.sent is not None, "only after a round's average"
        return self.sent[self.own], tensor(self.state, "w")[self.own]

    def put(self, own: Tensor) -> None:
        """Replace the `own` weights of the server's model."""
        w = tensor(self.state, "w").clone()
        w[self.own] = own
        self.state["w"] = w

    @property
    def round(self) -> int:
        """Return the number of the round, which is 0 before the first."""
        return int(number(self.state, "round")) if "round" in self.state else 0

    def rng(self, purpose: str) -> torch.Generator:
        """Return the server's random generator of this round for one purpose, such as "noise"."""
        return generator(self.facts.seed, purpose, self.round, SERVER)

    def mean(self, replies: Mapping[int, Message], name: str) -> Tensor:
        """Return the mean of a field over the replies, with the weights of the mean of models."""
        return average(replies, name, self.weighting)
