"""One client's local training: what a method and its parts may read, correct and ask for."""

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
    """What is trained, by whom, on which weights.

    `w` are the client's whole weights, flat. `g` is where their gradient is added up, and it holds the momentum too:
    add to it, never read or zero it; who needs a gradient for itself asks `gradient_at`. `shared` and `g_shared` are
    the trainable part of both that travels, without what parts added to the net; `anchor` is it as the server sent it.
    A part keeps what it needs until the end of this training under its name: `t["scaffold.c"] = ...`.
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
    values: dict[str, Tensor] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Tensor:
        return self.values[name]

    def __setitem__(self, name: str, value: Tensor) -> None:
        self.values[name] = value

    # ------------------------------------------------------------ verbs

    def bind(self) -> None:
        """Put these weights and their gradient into the net, in the mode in which it learns."""
        self.layout.bind(self.net.train(), self.w, self.g)

    def rest(self) -> None:
        """Put these weights into the net in eval mode, for whoever looks at it when the local steps are done."""
        self.layout.bind(self.net.eval(), self.w, self.g)

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """The local objective on a batch, without corrections."""
        return self.objective(self, x, y)

    def backward(self, x: Tensor, y: Tensor) -> None:
        """Add the gradient of the local objective on a batch to g, and the parts' corrections."""
        with self.net.collecting():
            loss = self.loss(x, y)
            loss.backward()  # type: ignore[no-untyped-call]
        self.descent.note(loss, len(y))
        for part in self.parts:
            part.correct(self)

    def add(self, gradient: Tensor) -> None:
        """Add a gradient of one's own making to g, and the parts' corrections."""
        self.g.add_(gradient)
        for part in self.parts:
            part.correct(self)

    @contextmanager
    def at(self, w: Tensor, g: Tensor | None = None) -> Iterator[None]:
        """Other weights in the net, inside the block; without g it is in eval mode, which leaves statistics alone.

        After the block the training's own weights are in it again, in the mode that it had.
        """
        before = self.net.training
        self.layout.bind(self.net.train(g is not None), w, g)
        try:
            yield
        finally:
            self.layout.bind(self.net.train(before), self.w, self.g)

    def gradient_at(self, w: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """The gradient of the local objective on a batch at other weights, without corrections: a new vector."""
        g = torch.zeros_like(w)
        with self.at(w, g), self.net.collecting():
            loss = self.loss(x, y)
            loss.backward()  # type: ignore[no-untyped-call]
        self.descent.note(loss, len(y))
        return g

    # ------------------------------------------------------------ what it is about

    @property
    def counts(self) -> Tensor:
        """N_m: samples of each class in the client's whole training set, and in what a part adds to it."""
        if "counts" not in self.values:
            self["counts"] = self.client.counts.to(self.w)
        return self["counts"]

    @property
    def shared(self) -> Tensor:
        """The travelling trainable weights now."""
        return self.w[self.layout.shared_trainable]

    @property
    def g_shared(self) -> Tensor:
        """Where their gradient is added up: corrections are added too."""
        return self.g[self.layout.shared_trainable]

    @property
    def anchor(self) -> Tensor:
        """The same weights as the server sent them."""
        return self.start[self.layout.shared_trainable]
