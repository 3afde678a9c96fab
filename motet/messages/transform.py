"""The interface of a transform: it changes a reply at the client, and may undo that at the server."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from motet.config.section import Section
from motet.messages.message import Message, State, tensor
from motet.training.randomness import generator


class Sender(Protocol):
    """The part of a client that a transform may use."""

    private: State

    def rng(self, purpose: str) -> torch.Generator:
        """Return a generator for this client, round and purpose."""


@dataclass(frozen=True)
class Arrival:
    """Where a reply comes from: its client, its round, and the size of the cohort."""

    client_id: int
    round: int
    cohort: int
    seed: int

    def rng(self, purpose: str) -> torch.Generator:
        """Return a generator for this client, round and purpose at the server."""
        return generator(self.seed, purpose, self.round, self.client_id)


class Transform(Section):
    """Changes the reply of a training, of any method. Its fields are its options."""

    def pack(self, client: Sender, message: Message, reply: Message) -> Message:
        """Return the changed reply, at the client after training. It may keep a state in `client.private`."""
        return reply

    def open(self, arrival: Arrival, message: Message, reply: Message) -> Message:
        """Return the reply as the method expects it, at the server after the bytes are counted."""
        return reply


@dataclass(frozen=True)
class TransformEntry:
    """The entry of a transform in the registry, defined in the transform's own file."""

    name: str
    summary: str
    paper: str
    transform: type[Transform]


def pack_reply(transforms: Sequence[Transform], client: Sender, message: Message, reply: Message) -> Message:
    """Return a reply with all transforms applied, as it leaves the client."""
    for transform in transforms:
        reply = transform.pack(client, message, reply)
    return reply


def open_reply(transforms: Sequence[Transform], arrival: Arrival, message: Message, reply: Message) -> Message:
    """Return a reply with all transforms undone, the last one first."""
    for transform in reversed(transforms):
        reply = transform.open(arrival, message, reply)
    return reply


def references(message: Message, reply: Message) -> Message:
    """Return what each float field of a reply is a change of: the message's field of that name and shape, or 0."""
    found: Message = {}
    for name, value in reply.items():
        sent = message.get(name)
        if isinstance(value, Tensor) and value.is_floating_point():
            same_shape = isinstance(sent, Tensor) and sent.shape == value.shape
            found[name] = tensor(message, name) if same_shape else torch.zeros_like(value)
        elif isinstance(value, float):
            found[name] = sent if isinstance(sent, float) else 0.0
    return found
