"""The forward pass through a net and the parts of a sum, and the personal model that is made of both."""

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor, nn

from motet.methods.base.part import Forward, Part
from motet.nets import Net
from motet.training.client import Client


def through(net: Net, parts: Sequence[Part], x: Tensor) -> Forward:
    """Return what body, the parts' features and head make of one batch."""
    raw = z = net.body(x)
    for part in parts:
        z = part.features(net, z)
    return Forward(x, raw, z, net.head(z))


class PersonalModel(nn.Module):
    """A client's model: body, the parts' features, head, and the parts' personal logits, with each part's note on the
    client."""

    def __init__(self, net: Net, parts: Sequence[Part], client: Client):
        super().__init__()
        self.net, self.parts = net, parts
        self.notes = [part.note(client, net) for part in parts]

    def generic_head(self) -> nn.Module:
        """Return a model with the same weights that gives the logits before any part makes them personal."""
        return GenericHead(self)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits of a prepared batch."""
        out = through(self.net, self.parts, x)
        for part, note in zip(self.parts, self.notes, strict=True):
            out = replace(out, logits=part.personal_logits(self.net, out, note))
        return out.logits


class GenericHead(nn.Module):
    """A client's own model without the personal part of its logits."""

    def __init__(self, model: PersonalModel):
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits of a prepared batch."""
        return through(self.model.net, self.model.parts, x).logits
