"""Some rounds run call by call, with every state, message and reply compared before and after each call."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor

from motet.messages.message import Message, State, number
from motet.messages.replies import Weighting, average
from motet.messages.task import Task
from motet.server.assembly import Assembly
from motet.server.round_loop import RoundLoop
from motet.testing.twin import Notes

ROUNDS = 2
Replies = dict[int, Message]


class InPlace(Exception):
    """Raised when a call changes what it received; the text says which call and what."""


@dataclass
class Walk:
    """Some rounds run call by call; it holds the last one."""

    assembly: Assembly
    server: State = field(default_factory=dict)  # the server state that was sent
    replies: Replies = field(default_factory=dict)

    def rounds(self) -> None:
        """Prepare, then broadcast, train and aggregate; raise `InPlace` if a call changes what it received."""
        method, loop = self.assembly.method, RoundLoop(self.assembly, Notes())
        server, privates = method.start(), dict[int, State]()
        if method.prepares:
            replies = self._asked("prepare", self.assembly.client_ids, 0, server, privates)
            server = self._aggregated("prepared", method.prepared, server, replies)
        for round in range(1, ROUNDS + 1):
            server = {**server, "round": round}
            replies = self._asked("train", loop.sample(round), round, server, privates)
            if not replies:
                return
            self.server, self.replies = server, replies
            server = self._aggregated("aggregate", method.aggregate, server, replies)
            with untouched("generic", server, "the server state"):
                method.generic(server)
            with untouched("diagnostics", server, "the server state"):
                method.diagnostics(server)
        for client_id in (*self.assembly.federation.training_ids[:2], *self.assembly.federation.new_ids[:1]):
            self._served(client_id, {**server, "round": ROUNDS}, privates.get(client_id, {}))

    def _asked(self, kind: str, ids: list[int], round: int, server: State, privates: dict[int, State]) -> Replies:
        replies: Replies = {}
        for i in ids:
            with untouched("broadcast", server, "the server state"):
                message = self.assembly.method.broadcast(server, i)
            kept = privates.get(i, {})
            with untouched(kind, message, "the message"), untouched(kind, kept, "client.private"):
                outcome = self.assembly.workplace.perform(Task(kind, i, round, message), kept)  # type: ignore[arg-type]
            privates[i] = kept if outcome.private is None else outcome.private
            if outcome.reply is not None:
                replies[i] = outcome.reply
        return replies

    def _aggregated(self, name: str, call: Callable[..., State], server: State, replies: Replies) -> State:
        with ExitStack() as handed:
            handed.enter_context(untouched(name, server, "the server state", entries=False))
            for i, reply in replies.items():
                handed.enter_context(untouched(name, reply, f"the reply of client {i}"))
            return call(server, replies)

    def _served(self, client_id: int, server: State, private: State) -> None:
        method, workplace = self.assembly.method, self.assembly.workplace
        message = method.broadcast(server, client_id)
        client = workplace.client(Task("score", client_id, ROUNDS, message), dict(private))
        with untouched("personal", message, "the message"), untouched("personal", private, "client.private"):
            method.personal(workplace.shown(client), message)
        if client.data.new:
            with untouched("adapt", message, "the message"):
                method.adapt(workplace.shown(client.selecting("last")), message)

    # ------------------------------------------------------------ other replies in the last round

    def generic_from(self, order: Callable[[Replies], Replies]) -> Tensor | None:
        """Return the generic model for the replies in another order."""
        return self.assembly.method.generic(self.assembly.method.aggregate(self.server, order(self.replies)))

    def with_one_value(self, name: str, rule: str, weighting: Weighting) -> State:
        """Return the server state if all clients had sent the mean of a field, or an equal share of its sum."""
        replies = {i: dict(reply) for i, reply in self.replies.items()}
        if all(isinstance(reply[name], Tensor) for reply in replies.values()):
            mean: Tensor | float = average(replies, name, weighting if rule == "mean" else "uniform")
        else:
            shares = [number(r, "n") if (rule, weighting) == ("mean", "samples") else 1.0 for r in replies.values()]
            mean = sum(s * number(r, name) for s, r in zip(shares, replies.values(), strict=True)) / sum(shares)
        return self.assembly.method.aggregate(self.server, {i: {**reply, name: mean} for i, reply in replies.items()})


@contextmanager
def untouched(name: str, handed: Mapping[str, object], whose: str, entries: bool = True) -> Iterator[None]:
    """Raise `InPlace` if the call inside the block changes a tensor that it received, or adds or removes entries."""
    before = dict(handed)
    copies = {key: value.clone() for key, value in before.items() if isinstance(value, Tensor)}
    yield
    for key, copy in copies.items():
        value = before[key]
        assert isinstance(value, Tensor)
        if value.shape != copy.shape or not torch.equal(value.nan_to_num(), copy.nan_to_num()):
            raise InPlace(f"`{name}` changes {key!r} of {whose} in place")
    if entries and (handed.keys() != before.keys() or any(handed[key] is not before[key] for key in before)):
        raise InPlace(f"`{name}` changes the entries of {whose}")
