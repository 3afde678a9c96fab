"""The transform `clip`, which bounds how far one client can move the server's model."""

import math

from pydantic import Field
from torch import Tensor

from motet.messages.message import Message
from motet.messages.transform import Sender, Transform, TransformEntry, references


class Clip(Transform):
    """Scales the change in a reply so that its L2 norm over all float fields is at most `norm`."""

    norm: float = Field(1.0, gt=0, description="the largest L2 norm of what a reply changes")

    def pack(self, client: Sender, message: Message, reply: Message) -> Message:
        return clipped(message, reply, self.norm)


def clipped(message: Message, reply: Message, norm: float) -> Message:
    """Return the reply with its change over all float fields scaled to this norm, or as it is if it is short enough."""
    start = references(message, reply)
    change = {name: reply[name] - start[name] for name in start}
    length = math.sqrt(sum(_square(value) for value in change.values()))
    if length <= norm:
        return reply
    return reply | {name: start[name] + value * (norm / length) for name, value in change.items()}


def _square(value: Tensor | float) -> float:
    return float(value.double().square().sum()) if isinstance(value, Tensor) else value * value


ENTRY = TransformEntry("clip", "no client's update is longer than `norm`", "McMahan et al. 2018", Clip)
