"""`+ft` and `+lp`: personalize the model that a method serves by fine-tuning it on the client's data."""

from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from motet.client import Client
from motet.errors import Diverged
from motet.message import Message, State
from motet.methods.method import Facts, Method
from motet.settings import Section
from motet.weights import Layout


class FineTuned(Method):
    """Any method, with its personal model fine-tuned from what the server last sent."""

    personal_from_global = True

    class Options(Section):
        """Options of `ft(...)` and `lp(...)`."""

        epochs: int = Field(5, ge=1, description="passes over the client's training data")
        lr: float = Field(0.0, ge=0, description="learning rate; 0: the experiment's adapt.lr")

    def __init__(self, inner: Method, options: Options, tuned: Literal["all", "head"]):
        self.inner, self.options, self.tuned = inner, options, tuned
        super().__init__(inner.net, options)
        self.pooled, self.prepares, self.needs_shared_data = inner.pooled, inner.prepares, inner.needs_shared_data
        self.from_counts = inner.from_counts

    def personal(self, client: Client, message: Message) -> nn.Module | None:
        model = self.inner.personal(client.from_the_global_model(), message)
        if model is None or client.data.new:  # a new client is tuned by `adapt`
            return model
        return self.tune(model, client, self.options.epochs, self.options.lr or client.adapt.lr)

    def adapt(self, client: Client, message: Message) -> nn.Module:
        model = self.inner.personal(client.from_the_global_model(), message)
        if model is None:
            return self.inner.adapt(client, message)
        return self.tune(model, client, client.adapt.epochs, self.options.lr or client.adapt.lr)

    def tune(self, model: nn.Module, client: Client, epochs: int, lr: float) -> nn.Module:
        """Plain SGD on cross-entropy, over all weights or the head's alone."""
        head = [name for name, _ in model.named_parameters() if self.inner.in_head(name)]
        layout = Layout(model, private=head)
        w = layout.flatten(model)
        g = torch.zeros_like(w)
        layout.bind(model, w, g)
        head_only = self.tuned == "head"
        moving = slice(layout.private.start, layout.trainable.stop) if head_only else layout.trainable

        def gradient(x: Tensor, y: Tensor) -> None:
            cross_entropy(model(x), y).backward()  # type: ignore[no-untyped-call]

        model.train(not head_only)  # a frozen body keeps its statistics
        with frozen(model, set(layout.places) - set(head) if head_only else set()):
            client.descent("fine-tune", epochs, lr).run(client.data.train, w[moving], g[moving], gradient)
        return model.eval()

    # everything else is the method's own

    def start(self, facts: Facts) -> State:
        return self.inner.start(facts)

    def broadcast(self, server: State, client_id: int, scoring: bool = False) -> Message:
        return self.inner.broadcast(server, client_id, scoring)

    def train(self, client: Client, message: Message) -> Message:
        return self.inner.train(client, message)

    def together(self) -> int:
        return self.inner.together()

    def train_together(self, clients: Sequence[Client], messages: Sequence[Message]) -> list[Message | Diverged]:
        return self.inner.train_together(clients, messages)

    def aggregate(self, server: State, replies: Mapping[int, Message]) -> State:
        return self.inner.aggregate(server, replies)

    def generic(self, server: State) -> Tensor | None:
        return self.inner.generic(server)

    def prepare(self, client: Client, message: Message) -> Message:
        return self.inner.prepare(client, message)

    def prepared(self, server: State, replies: Mapping[int, Message]) -> State:
        return self.inner.prepared(server, replies)

    def diagnostics(self, server: State) -> dict[str, float]:
        return self.inner.diagnostics(server)


class frozen:
    """No gradients for these parameters inside the block."""

    def __init__(self, model: nn.Module, names: set[str]):
        self.parameters = [p for name, p in model.named_parameters() if name in names]

    def __enter__(self) -> None:
        for p in self.parameters:
            p.requires_grad_(False)

    def __exit__(self, *_: object) -> None:
        for p in self.parameters:
            p.requires_grad_(True)
