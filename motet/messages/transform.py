"""The interface of a transform: it changes a reply at the client, and may undo that at the server.

What a transform may do, in the order in which a round calls it. Each default does nothing.

    server    refuse      before anything runs: a sentence if it does not fit the experiment
    client    introduce   once, in a task of its own: what the server must know of the client, such as a public key
    server    introduced  keep that in the server state
    server    address     add fields to the message, such as the public keys of the cohort
    client    promise     at a real site: what it never forgets, whatever state the server tells it to start from
    client    pack        change the reply of a training
    server    open        undo that, reply by reply; or `collector`, where single replies cannot be read
    server    stand_in    what counts in place of a client that failed
    server    spent       figures for the row of the round, such as the privacy that is spent
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from motet.config.section import Section
from motet.messages.checks import Form, Reasons
from motet.messages.message import Message, State, tensor
from motet.messages.replies import Replies, Rule, Weighting
from motet.training.randomness import generator, secret_generator

PREFIX = "transform."
"""How the names of fields begin that transforms keep in the server state and in private states."""


class Sender(Protocol):
    """The part of a client that a transform may use."""

    private: State
    round: int

    @property
    def id(self) -> int:
        """The client's number in the federation."""

    def rng(self, purpose: str) -> torch.Generator:
        """Return a generator for this client, round and purpose."""

    @property
    def cohort(self) -> int:
        """How many clients take part in a round."""

    @property
    def added_up(self) -> Mapping[str, tuple[str, ...]]:
        """How each field of a reply is added up: the weightings of its mean, or `sum`; none for one that is not."""

    def secret(self, purpose: str) -> bytes:
        """Return 32 bytes that only this client can know; in a simulation they come from the run's seed."""

    def secret_rng(self, purpose: str) -> torch.Generator:
        """Return a generator for this round and purpose whose draws only this client can know."""


@dataclass(frozen=True)
class Arrival:
    """Where a reply comes from: its client, its round, and the size of the cohort."""

    client_id: int
    round: int
    cohort: int
    seed: int
    secret: bytes = b""  # of a coordinator of real sites, which know the seed; none in a simulation

    def rng(self, purpose: str) -> torch.Generator:
        """Return a generator for this client, round and purpose at the server."""
        if self.secret:
            return secret_generator(self.secret, self.seed, purpose, self.round, self.client_id)
        return generator(self.seed, purpose, self.round, self.client_id)


@dataclass(frozen=True)
class RunPlan:
    """What transforms may know of a run before it begins, to refuse it or to account for it."""

    transforms: "tuple[Transform, ...]"  # all of them, in the order in which they act at the client
    uploads: Mapping[str, Rule]
    weightings: Callable[[str], Sequence[Weighting]]
    clients: int
    cohort: int
    travels_beside: Mapping[str, str]  # what leaves clients beside replies of trainings: what it is, what avoids it
    chosen_by_scores: str = ""  # where scores choose the models that are kept: a sentence about it
    statistics: bool = False  # whether w has running statistics of batch normalization

    def added_up(self) -> dict[str, tuple[str, ...]]:
        """Return how each field of a reply is added up: the weightings of its mean, or `sum`; none for `each`."""
        return added_up(self.uploads, self.weightings)

    def position(self, transform: "Transform") -> int:
        """Return where in the row of transforms this one is."""
        return next(i for i, each in enumerate(self.transforms) if each is transform)


def added_up(
    uploads: Mapping[str, Rule], weightings: Callable[[str], Sequence[Weighting]]
) -> dict[str, tuple[str, ...]]:
    """Return how each of these fields is added up: the weightings of its mean, or `sum`; none for `each`."""
    ways: dict[Rule, Callable[[str], Sequence[str]]] = {"mean": weightings, "sum": lambda _: ("sum",)}
    return {name: tuple(ways[rule](name)) if rule in ways else () for name, rule in uploads.items()}


class Collector(Protocol):
    """Collects the replies of a round one by one, in the order of client ids."""

    void: bool  # whether the replies of all are lost because one is missing

    def add(self, client_id: int, reply: Message) -> None:
        """Take in one reply."""

    def finish(self, stand_in: "StandIn | None" = None) -> tuple[Replies, Reasons]:
        """Return the usable replies, and why others are set aside."""


StandIn = Callable[[int, Mapping[str, Form]], Message]
"""Makes the reply that counts in place of a client that failed, from its id and the form that replies have."""


class Transform(Section):
    """Changes the reply of a training, of any method. Its fields are its options."""

    needs_one_message: ClassVar[bool] = False  # whether all clients of a round must be sent the same
    compresses: ClassVar[bool] = False  # whether what it sends is no plain tensor of the field any more
    replaces_failed: ClassVar[bool] = False  # whether a stand-in counts for a client that failed
    needs_whole_cohort: ClassVar[bool] = False  # whether a round is lost if one client of its cohort is missing

    def refuse(self, plan: RunPlan) -> str | None:
        """Return one sentence if it does not fit the run, else None; called before anything runs."""
        return None

    def introduce(self, client: Sender) -> Message:
        """Return what the server must know of a client before its first training, at the client."""
        return {}

    def introduced(self, server: State, replies: Mapping[int, Message]) -> State:
        """Return the server state with what clients told of themselves, in fields that begin with `PREFIX`."""
        return server

    def stranger(self, server: State, client_id: int) -> bool:
        """Return whether a client must introduce itself before it trains."""
        return False

    def address(self, server: State, cohort: Mapping[int, float], message: Message) -> Message:
        """Return the message of a training with what the transform needs at the client.

        `cohort` has the number of samples of each client in the round, as the server knows it.
        """
        return message

    def promise(self, kept: State, round: int, asked: bytes, message: Message) -> State:
        """Return what a real site must remember before it trains; raise `MotetError` if it must not train.

        A server names the private state that a site's work starts from, and could name an old one. `kept` is what this
        returned last, which no server can take back; `asked` is a hash of everything that the training depends on.
        """
        return kept

    def announced(self, kept: State) -> str:
        """Return a sentence for a real site's log about what it promised, if people can check it; else nothing."""
        return ""

    def pack(self, client: Sender, message: Message, reply: Message) -> Message:
        """Return the changed reply, at the client after training. It may keep a state in `client.private`."""
        return reply

    def open(self, arrival: Arrival, message: Message, reply: Message) -> Message:
        """Return the reply as the method expects it, at the server after the bytes are counted."""
        return reply

    def collector(self, plan: RunPlan, cohort: Mapping[int, float], message: Callable[[], Message]) -> Collector | None:
        """Return what adds up replies that cannot be opened one by one, or None; `message` makes one of the round's."""
        return None

    def stand_in(self, arrival: Arrival, message: Message, reply: Message) -> Message:
        """Return what counts for a client that failed; `reply` has no change."""
        return reply

    def spent(self, plan: RunPlan, rounds: int) -> dict[str, float]:
        """Return figures for the row of a round, after so many rounds."""
        return {}


@dataclass(frozen=True)
class TransformEntry:
    """The entry of a transform in the registry, defined in the transform's own file."""

    name: str
    summary: str
    paper: str
    transform: type[Transform]


def pack_reply(transforms: Sequence[Transform], client: Sender, message: Message, reply: Message) -> Message:
    """Return a reply with all transforms applied, as it leaves the client."""
    for transform in transforms:
        reply = transform.pack(client, message, reply)
    return reply


def open_reply(transforms: Sequence[Transform], arrival: Arrival, message: Message, reply: Message) -> Message:
    """Return a reply with all transforms undone, the last one first."""
    for transform in reversed(transforms):
        reply = transform.open(arrival, message, reply)
    return reply


def references(message: Message, reply: Message) -> Message:
    """Return what each float field of a reply is a change of: the message's field of that name and shape, or 0."""
    found: Message = {}
    for name, value in reply.items():
        sent = message.get(name)
        if isinstance(value, Tensor) and value.is_floating_point():
            same_shape = isinstance(sent, Tensor) and sent.shape == value.shape
            found[name] = tensor(message, name) if same_shape else torch.zeros_like(value)
        elif isinstance(value, float):
            found[name] = sent if isinstance(sent, float) else 0.0
    return found


def blank_reply(message: Message, form: Mapping[str, Form]) -> Message:
    """Return a reply of this form that changes nothing: what the message has, else zeros; of numbers one."""
    reply: Message = {}
    for name, kind in form.items():
        if kind is None:
            reply[name] = 1
        else:
            sent, (dtype, shape) = message.get(name), kind
            same = isinstance(sent, Tensor) and tuple(sent.shape) == shape and sent.dtype == dtype
            reply[name] = sent if isinstance(sent, Tensor) and same else torch.zeros(shape, dtype=dtype)
    return reply
