"""One batch through a net and the parts of a sum; and the personal model that this makes."""

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor, nn

from motet.methods.base.part import Forward, Part
from motet.nets import Net
from motet.training.client import Client


def through(net: Net, parts: Sequence[Part], x: Tensor) -> Forward:
    """One batch through body, the parts' features and head."""
    raw = z = net.body(x)
    for part in parts:
        z = part.features(net, z)
    return Forward(x, raw, z, net.head(z))


class PersonalModel(nn.Module):
    """Body, the parts' features, head, the parts' personal logits; with what each part notes of the client."""

    def __init__(self, net: Net, parts: Sequence[Part], client: Client):
        super().__init__()
        self.net, self.parts = net, parts
        self.notes = [part.note(client, net) for part in parts]

    def generic_head(self) -> nn.Module:
        """The same weights, with the logits that the parts' personal ones start from."""
        return GenericHead(self)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of a prepared batch."""
        out = through(self.net, self.parts, x)
        for part, note in zip(self.parts, self.notes, strict=True):
            out = replace(out, logits=part.personal_logits(self.net, out, note))
        return out.logits


class GenericHead(nn.Module):
    """A client's own model without what is personal in its logits."""

    def __init__(self, model: PersonalModel):
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        """Logits of a prepared batch."""
        return through(self.model.net, self.model.parts, x).logits
