"""A method around another method that changes only the personal models; all other calls go to the inner method."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from motet.errors import Diverged
from motet.messages.message import Message, State
from motet.messages.replies import Weighting
from motet.methods.base.learned_figure import Learned, LearnedFigure
from motet.methods.base.method import Facts, Method
from motet.training.client import Client


class Wrapped(Method):
    """A wrapper such as `+ft`: it trains exactly as the inner method does.

    A subclass defines `personal`, which makes the model of a client that took part in training, and `adapt`, which
    makes that of a new client. Both run at the client after the inner method's rounds, and may train on the client's
    data.
    """

    personal_from_global = True

    def __init__(self, inner: Method, options: Any):
        super().__init__(inner.net, options, (), inner.facts)
        self.inner, self.options = inner, options
        self.tells, self.uploads, self.pooled = inner.tells, inner.uploads, inner.pooled
        self.prepares, self.needs_shared_data = inner.prepares, inner.needs_shared_data
        self.needs_validation = type(self).needs_validation or inner.needs_validation
        self.assumes_sgd = inner.assumes_sgd
        self.needs_classes = type(self).needs_classes or inner.needs_classes
        self.keeps_nothing, self.from_counts, self.shows = inner.keeps_nothing, inner.from_counts, inner.shows

    @property
    def settled_after(self) -> int:
        return self.inner.settled_after

    def refuse(self, facts: Facts) -> str | None:
        """Return what the inner method returns, as all calls below do."""
        return self.inner.refuse(facts)

    def measured(self, server: State) -> dict[str, float]:
        return self.inner.measured(server)

    def start(self) -> State:
        return self.inner.start()

    def broadcast(self, server: State, client_id: int, scoring: bool = False) -> Message:
        return self.inner.broadcast(server, client_id, scoring)

    def aggregate(self, server: State, replies: Mapping[int, Message]) -> State:
        return self.inner.aggregate(server, replies)

    def weightings(self, field: str) -> Sequence[Weighting]:
        return self.inner.weightings(field)

    def generic(self, server: State) -> Tensor | None:
        return self.inner.generic(server)

    def diagnostics(self, server: State) -> dict[str, float]:
        return self.inner.diagnostics(server)

    def figures_learned(self, learned: Learned) -> list[LearnedFigure]:
        return self.inner.figures_learned(learned)

    def client_snapshot(self, client: Client, message: Message) -> Message:
        return self.inner.client_snapshot(client, message)

    @property
    def takes_snapshots(self) -> bool:
        return self.inner.takes_snapshots or type(self).client_snapshot is not Wrapped.client_snapshot

    def prepare(self, client: Client, message: Message) -> Message:
        return self.inner.prepare(client, message)

    def prepared(self, server: State, replies: Mapping[int, Message]) -> State:
        return self.inner.prepared(server, replies)

    def train(self, client: Client, message: Message) -> Message:
        return self.inner.train(client, message)

    def local_weights(self, client: Client, message: Message) -> Tensor | None:
        return self.inner.local_weights(client, message)

    def after_epochs(self, client: Client, message: Message, epochs: int) -> dict[str, float]:
        return self.inner.after_epochs(client, message, epochs)

    def most_batched(self) -> int:
        return self.inner.most_batched()

    def train_batched(self, clients: Sequence[Client], messages: Sequence[Message]) -> list[Message | Diverged]:
        return self.inner.train_batched(clients, messages)

    @property
    def own_weights(self) -> slice:
        return self.inner.own_weights

    def in_head(self, parameter: str) -> bool:
        return self.inner.in_head(parameter)
