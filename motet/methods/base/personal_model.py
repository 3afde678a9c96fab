"""The forward pass through a net and the parts of a sum, and the personal model that is made of both."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from torch import Tensor, nn

from motet.methods.base.part import Forward, Part
from motet.nets import Net
from motet.nets.net import switch
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

    def train(self, mode: bool = True) -> "PersonalModel":
        """Switch between training and evaluation; the net is the one module inside."""
        switch(self, mode)
        return self

    def add_gradient(self, x: Tensor, y: Tensor) -> None:
        """Add the gradient of a batch's loss to the gradients that are bound."""
        if self._is_plain and self.net.add_row_gradient(x, y, halves=True) is not None:
            return
        with self.net.collecting():
            self.net.training_loss(self(x), y).backward()  # type: ignore[no-untyped-call]

    @cached_property
    def _is_plain(self) -> bool:
        """Whether body and head alone make the logits."""
        kinds = {type(part) for part in self.parts}
        return all(kind.features is Part.features and kind.personal_logits is Part.personal_logits for kind in kinds)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits of a prepared batch."""
        if self._is_plain:
            return self.net.head(self.net.body(x))
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
