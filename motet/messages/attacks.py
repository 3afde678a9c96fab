"""What malicious clients send instead of their replies (Ditto's attacks, Li et al. 2021).

All attackers train on random labels. An attack changes the float tensors of a reply, relative to what the server sent;
numbers, such as how many samples a client has, stay as they are.
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
        """Return the reply with each field's change replaced by noise, with its own σ."""
        rng, sent = client.rng("attack"), dict(reply)
        for name, start, change in _changes(message, reply):
            noise = torch.randn(change.shape, generator=rng).to(change)
            sent[name] = start + change.std(correction=0) * noise
        return sent


class ModelReplacement(Transform):
    """A3: the change times the number of clients in a round, so that a mean over them is the attacker's model."""

    cohort: int = Field(ge=1, description="the number of clients in a round")

    def pack(self, client: Sender, message: Message, reply: Message) -> Message:
        """Return w + |S|·(w_i − w) for each field."""
        return reply | {name: start + self.cohort * change for name, start, change in _changes(message, reply)}


def attack_of(name: str, cohort: int) -> tuple[Transform, ...]:
    """Return the transforms of an attack; none for poisoned labels (A1), which are in the client's data already."""
    return {
        "label-poison": (),
        "random-update": (RandomUpdate(),),
        "model-replacement": (ModelReplacement(cohort=cohort),),
    }[name]


def _changes(message: Message, reply: Message) -> Iterator[tuple[str, Tensor, Tensor]]:
    for name, start in references(message, reply).items():
        if isinstance(start, Tensor):
            yield name, start, tensor(reply, name) - start
