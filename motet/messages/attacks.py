"""What malicious clients send in the place of their replies (Ditto's attacks, Li et al. 2021).

All attackers train on random labels. An attack acts on the tensors of floats in a reply, relative to what the server
sent; numbers, such as how many samples a client has, are told as they are.
"""

from collections.abc import Iterator

import torch
from pydantic import Field
from torch import Tensor

from motet.messages.message import Message, tensor
from motet.messages.transform import Sender, Transform, references


class RandomUpdate(Transform):
    """A2: the change is N(0, σ²I), where σ is the standard deviation of the change that would have been sent."""

    def pack(self, client: Sender, message: Message, reply: Message) -> Message:
        """Each field with its own σ"""
        rng, sent = client.rng("attack"), dict(reply)
        for name, start, change in _changes(message, reply):
            noise = torch.randn(change.shape, generator=rng).to(change)
            sent[name] = start + change.std(correction=0) * noise
        return sent


class ModelReplacement(Transform):
    """A3: the change times the number of clients in a round, so that a mean over them is the attacker's model."""

    cohort: int = Field(ge=1, description="the number of clients in a round")

    def pack(self, client: Sender, message: Message, reply: Message) -> Message:
        """w + |S|·(w_i − w)"""
        return reply | {name: start + self.cohort * change for name, start, change in _changes(message, reply)}


def attack_of(name: str, cohort: int) -> tuple[Transform, ...]:
    """What an attack does to a malicious client's replies; poisoned labels (A1) are in its data already."""
    return {
        "label-poison": (),
        "random-update": (RandomUpdate(),),
        "model-replacement": (ModelReplacement(cohort=cohort),),
    }[name]


def _changes(message: Message, reply: Message) -> Iterator[tuple[str, Tensor, Tensor]]:
    for name, start in references(message, reply).items():
        if isinstance(start, Tensor):
            yield name, start, tensor(reply, name) - start
