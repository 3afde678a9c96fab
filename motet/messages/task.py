"""What is asked of a client, and what came of it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from motet.messages.message import Message, State, byte_count

TaskKind = Literal["prepare", "train", "score", "sync_score", "adapt", "export", "client_snapshot", "run_metric"]

EVERY_TASK: frozenset[TaskKind] = frozenset(get_args(TaskKind))
"""What a simulation serves, where all data are in one place."""

SITE_TASKS: frozenset[TaskKind] = frozenset({"prepare", "train", "score", "sync_score", "adapt"})
"""What a real site serves: work that answers with a reply or with scores, and never hands over a model or samples."""


@dataclass(frozen=True)
class Outcome:
    """What came of a task: a reply and perhaps a new private state, or the reason why there is none."""

    kind: TaskKind
    client_id: int
    round: int
    reply: Message | None = None
    private: State | None = None
    failure: str | None = None
    train_loss: float | None = None  # of a training, beside the reply: no method sees it
    sent: int = 0  # bytes of the message to the client, counted by the engine
    received: int = 0  # bytes of the reply as it arrived, likewise


@dataclass(frozen=True)
class Task:
    """One piece of work for one client."""

    kind: TaskKind
    client_id: int
    round: int
    message: Message | Callable[[], Message]  # a function where it may be built late: many tasks wait at once

    def build_message(self) -> Message:
        """Return what the client is sent. It may take the memory of a model: build it when the task is handed out."""
        return self.message() if callable(self.message) else self.message

    def with_message(self) -> "Task":
        """Return the same task with its message built."""
        return replace(self, message=self.build_message())

    def answered(self, reply: Message, private: State | None = None, train_loss: float | None = None) -> Outcome:
        """Return the outcome of work that was done."""
        return Outcome(self.kind, self.client_id, self.round, reply, private, train_loss=train_loss)

    def failed(self, reason: str) -> Outcome:
        """Return the outcome of work that came to nothing."""
        return Outcome(self.kind, self.client_id, self.round, failure=reason)


def counted(outcome: Outcome, sent: int) -> Outcome:
    """Return an outcome as it leaves an engine: with the bytes that went and came, without the private state."""
    received = byte_count(outcome.reply) if outcome.reply is not None else 0
    return replace(outcome, private=None, sent=sent, received=received + LOSS_BYTES * (outcome.train_loss is not None))


LOSS_BYTES = 8
"""What the training loss adds to a reply on its way."""


def in_task_order(tasks: Sequence[Task], outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
    """Yield outcomes in the order of their tasks, each as soon as all before it are there.

    An outcome that no task asked for, or that comes a second time, is passed on at once; one that never comes is
    stepped over at the end.
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
