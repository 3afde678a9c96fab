"""One client's local training: what a method and its parts may read, correct and store."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from motet.nets import Net
from motet.training.client import Client
from motet.training.flat_weights import Layout
from motet.training.local import Descent

if TYPE_CHECKING:
    from motet.methods.base.part import Part


@dataclass
class Training:
    """One client's local training, from the model it received to the end of its local steps.

    `w` holds all weights of the client, flat. `g` is where their gradient is added up, and it also holds the momentum:
    add to it, but never read or zero it; use `gradient_at` for a gradient on its own. `shared` and `g_shared` are views
    on the trainable weights that travel and their gradient, without what parts added to the net; `anchor` has these
    weights as the server sent them. A part stores what it needs until the end of this training under its name:
    `t["scaffold.c"] = ...`.
    """

    client: Client
    net: Net
    layout: Layout
    parts: "tuple[Part, ...]"
    w: Tensor
    g: Tensor
    descent: Descent
    start: Tensor
    objective: "Callable[[Training, Tensor, Tensor], Tensor]"
    is_plain: bool = False  # the objective is the net's own loss, which no part and no method changes
    values: dict[str, Tensor] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Tensor:
        return self.values[name]

    def __setitem__(self, name: str, value: Tensor) -> None:
        self.values[name] = value

    # ------------------------------------------------------------ gradients and weights in the net

    def bind(self) -> None:
        """Put these weights and their gradient into the net, in train mode."""
        self.layout.bind(self.net.train(), self.w, self.g)

    def rest(self) -> None:
        """Put these weights into the net in eval mode, for hooks that run after the local steps."""
        self.layout.bind(self.net.eval(), self.w, self.g)

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the local objective on a batch, without corrections."""
        return self.objective(self, x, y)

    def backward(self, x: Tensor, y: Tensor) -> None:
        """Add the gradient of the local objective on a batch to g, and then the parts' corrections."""
        self.descent.note(self.add_gradient(x, y), len(y))
        for part in self.parts:
            part.correct(self)

    def add(self, gradient: Tensor) -> None:
        """Add a gradient that the method computed itself to g, and then the parts' corrections."""
        self.g.add_(gradient)
        for part in self.parts:
            part.correct(self)

    @contextmanager
    def at(self, w: Tensor, g: Tensor | None = None) -> Iterator[None]:
        """Put other weights into the net for the length of the block.

        Without g the net is in eval mode, which leaves its statistics alone. After the block the training's own weights
        are back in the net, in the mode that it had before.
        """
        before = self.net.training
        self.layout.bind(self.net.train(g is not None), w, g)
        try:
            yield
        finally:
            self.layout.bind(self.net.train(before), self.w, self.g)

    def gradient_at(self, w: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """Return a new vector: the gradient of the local objective on a batch at other weights, without corrections."""
        g = torch.zeros_like(w)
        with self.at(w, g):
            self.descent.note(self.add_gradient(x, y), len(y))
        return g

    def add_gradient(self, x: Tensor, y: Tensor, share: float = 1.0) -> Tensor:
        """Add the gradient of the local objective on a batch, times a share, to the gradients in the net; return it."""
        if self.is_plain:
            return self.net.add_gradient(x, y, share)
        with self.net.collecting():
            loss = self.loss(x, y)
            loss = loss if share == 1 else loss * share
            loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    # ------------------------------------------------------------ the client's data and weights

    @property
    def counts(self) -> Tensor:
        """Return N_m: samples of each class in the client's training set, with those that a part adds to it."""
        if "counts" not in self.values:
            self["counts"] = self.client.counts.to(self.w)
        return self["counts"]

    @property
    def shared(self) -> Tensor:
        """Return the trainable weights that travel, as they are now."""
        return self.w[self.layout.shared_trainable]

    @property
    def g_shared(self) -> Tensor:
        """Return where the gradient of `shared` is added up; parts add their corrections to it."""
        return self.g[self.layout.shared_trainable]

    @property
    def anchor(self) -> Tensor:
        """Return the same weights as the server sent them."""
        return self.start[self.layout.shared_trainable]
