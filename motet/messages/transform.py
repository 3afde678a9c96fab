"""What every transform is: a change of the reply at the client, and its counterpart at the server."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from motet.config.section import Section
from motet.messages.message import Message, State, tensor
from motet.training.randomness import generator


class Sender(Protocol):
    """What a transform may use of the client whose reply it changes."""

    private: State

    def rng(self, purpose: str) -> torch.Generator:
        """Return the client's randomness in this round for one purpose."""


@dataclass(frozen=True)
class Arrival:
    """One reply as it arrives at the server: whose, when, and one of how many."""

    client_id: int
    round: int
    cohort: int
    seed: int

    def rng(self, purpose: str) -> torch.Generator:
        """Randomness of this arrival for one purpose."""
        return generator(self.seed, purpose, self.round, self.client_id)


class Transform(Section):
    """A transform acts on the reply of a training, whatever method made it. Its fields are its options."""

    def pack(self, client: Sender, message: Message, reply: Message) -> Message:
        """At the client, after training. What it keeps for the next time goes to `client.private`."""
        return reply

    def open(self, arrival: Arrival, message: Message, reply: Message) -> Message:
        """At the server, after the bytes are counted: the reply as the method wants it."""
        return reply


@dataclass(frozen=True)
class TransformEntry:
    """One name: the line in a transform's own file."""

    name: str
    summary: str
    paper: str
    transform: type[Transform]


def pack_reply(transforms: Sequence[Transform], client: Sender, message: Message, reply: Message) -> Message:
    """A reply as it leaves its client."""
    for transform in transforms:
        reply = transform.pack(client, message, reply)
    return reply


def open_reply(transforms: Sequence[Transform], arrival: Arrival, message: Message, reply: Message) -> Message:
    """A reply as the method's server sees it: what was done last is undone first."""
    for transform in reversed(transforms):
        reply = transform.open(arrival, message, reply)
    return reply


def references(message: Message, reply: Message) -> Message:
    """What each field of floats of a reply is relative to: the message's field of that name and shape, or else 0."""
    found: Message = {}
    for name, value in reply.items():
        sent = message.get(name)
        if isinstance(value, Tensor) and value.is_floating_point():
            same_shape = isinstance(sent, Tensor) and sent.shape == value.shape
            found[name] = tensor(message, name) if same_shape else torch.zeros_like(value)
        elif isinstance(value, float):
            found[name] = sent if isinstance(sent, float) else 0.0
    return found
