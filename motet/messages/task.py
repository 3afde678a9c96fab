"""Tasks for clients, and their outcomes."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from motet.messages.message import Message, State, byte_count

TaskKind = Literal[
    "introduce", "prepare", "train", "score", "sync_score", "adapt", "export", "client_snapshot", "run_metric"
]

EVERY_TASK: frozenset[TaskKind] = frozenset(get_args(TaskKind))
"""The kinds of tasks that a simulation allows."""

SITE_TASKS: frozenset[TaskKind] = frozenset({"introduce", "prepare", "train", "score", "sync_score", "adapt"})
"""The kinds of tasks that a real site allows: they send replies or scores, never a personal model or samples."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a task: a reply and perhaps a new private state, or the reason for a failure."""

    kind: TaskKind
    client_id: int
    round: int
    reply: Message | None = None
    private: State | None = None
    failure: str | None = None
    train_loss: float | None = None  # of a training; kept out of the reply, so that no method sees it
    sent: int = 0  # bytes of the message to the client, counted by the engine
    received: int = 0  # bytes of the reply, counted by the engine


@dataclass(frozen=True)
class Task:
    """One piece of work for one client."""

    kind: TaskKind
    client_id: int
    round: int
    message: Message | Callable[[], Message]  # or a function that builds it late, since many tasks wait at once

    def build_message(self) -> Message:
        """Return the message to the client. It may be as large as a model: build it only when the task starts."""
        return self.message() if callable(self.message) else self.message

    def with_message(self) -> "Task":
        """Return the same task with its message built."""
        return replace(self, message=self.build_message())

    def answered(self, reply: Message, private: State | None = None, train_loss: float | None = None) -> Outcome:
        """Return a successful outcome of this task."""
        return Outcome(self.kind, self.client_id, self.round, reply, private, train_loss=train_loss)

    def failed(self, reason: str) -> Outcome:
        """Return a failed outcome of this task."""
        return Outcome(self.kind, self.client_id, self.round, failure=reason)


def counted(outcome: Outcome, sent: int) -> Outcome:
    """Return an outcome as an engine yields it: with the bytes sent and received, without the private state."""
    received = byte_count(outcome.reply) if outcome.reply is not None else 0
    return replace(outcome, private=None, sent=sent, received=received + LOSS_BYTES * (outcome.train_loss is not None))


LOSS_BYTES = 8
"""Bytes that the training loss adds to a reply."""


def in_task_order(tasks: Sequence[Task], outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
    """Yield outcomes in the order of their tasks, each as soon as all before it are there.

    An outcome without a task, or a second one of a task, is yielded at once; missing outcomes are skipped at the end.
    """
    places = {task.client_id: place for place, task in enumerate(tasks)}
    early: dict[int, Outcome] = {}
    following = 0
    for outcome in outcomes:
        place = places.get(outcome.client_id, -1)
        if place < following or place in early:
            yield outcome
            continue
        early[place] = outcome
        while following in early:
            yield early.pop(following)
            following += 1
    yield from (early[place] for place in sorted(early))
