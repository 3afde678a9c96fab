"""Where client work runs. An engine carries tasks and outcomes; it does not know what they mean."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from motet.io.hashed_files import ClientFiles
from motet.messages.message import Message, State, byte_count

TaskKind = Literal["prepare", "train", "score", "sync_score", "adapt", "export", "client_snapshot", "run_metric"]


@dataclass(frozen=True)
class Outcome:
    """What came of a task: a reply and perhaps a new private state, or the reason why there is none."""

    kind: TaskKind
    client_id: int
    round: int
    reply: Message | None = None
    private: State | None = None
    failure: str | None = None
    sent: int = 0  # bytes of the message to the client, told by the engine
    received: int = 0  # bytes of the reply as it arrived, likewise


@dataclass(frozen=True)
class Task:
    """One piece of work for one client."""

    kind: TaskKind
    client_id: int
    round: int
    message: Message | Callable[[], Message]  # many tasks wait at once, so that messages had better be written late

    def build_message(self) -> Message:
        """What the client is told; it may take the memory of a model, so write it when the task is handed out."""
        return self.message() if callable(self.message) else self.message

    def with_message(self) -> "Task":
        """The same task with its message as it is now."""
        return replace(self, message=self.build_message())

    def answered(self, reply: Message, private: State | None = None) -> Outcome:
        """Work that was done."""
        return Outcome(self.kind, self.client_id, self.round, reply, private)

    def failed(self, reason: str) -> Outcome:
        """Work that came to nothing."""
        return Outcome(self.kind, self.client_id, self.round, failure=reason)


Perform = Callable[[Task, State], Outcome]
Groups = Callable[[Sequence[Task]], list[list[int]]]


def each_alone(tasks: Sequence[Task]) -> list[list[int]]:
    """No tasks belong together."""
    return [[i] for i in range(len(tasks))]


class Work(Protocol):
    """What an engine is given to do: tasks, some of which are better done as one."""

    def groups(self, tasks: Sequence[Task]) -> list[list[int]]:
        """Which of the tasks belong together."""

    def perform_group(self, tasks: Sequence[Task], privates: Sequence[State]) -> list[Outcome]:
        """Do a group of tasks, with the private state of each client."""


@dataclass(frozen=True)
class OneByOne:
    """A function for one task as work: no tasks are done together."""

    perform: Perform

    def groups(self, tasks: Sequence[Task]) -> list[list[int]]:
        """Each its own."""
        return each_alone(tasks)

    def perform_group(self, tasks: Sequence[Task], privates: Sequence[State]) -> list[Outcome]:
        """One after the other."""
        return [self.perform(task, private) for task, private in zip(tasks, privates, strict=True)]


class Engine(ABC):
    """Runs tasks and keeps the clients' private states where the clients are."""

    @abstractmethod
    def run(self, tasks: Sequence[Task]) -> list[Outcome]:
        """The outcomes in the order of the tasks; private states are kept by the engine and not among them."""

    def available(self, client_ids: Sequence[int]) -> list[int]:
        """Which of these clients can be asked now, in the same order; in a simulation all of them."""
        return list(client_ids)

    @abstractmethod
    def keep(self, round: int) -> ClientFiles:
        """Put the private states as they are now where a kill cannot reach them; how to find that of each client."""

    def kept(self, round: int) -> None:  # noqa: B027  an engine may leave that to its sites
        """What `keep` answered is in a checkpoint now: states that only older ones than its predecessor need may go."""

    @abstractmethod
    def go_back(self, round: int, entries: ClientFiles) -> None:
        """Every client has the private state again that it had at that checkpoint; `Damaged` if that cannot be."""

    @abstractmethod
    def private(self, client_id: int) -> State:
        """A client's private state, to serve its model where all data are in one place; rounds never ask for it."""

    def close(self) -> None:  # noqa: B027  nothing to stop is a fine default
        """Stop whatever the engine started."""


def counted(outcome: Outcome, sent: int) -> Outcome:
    """An outcome as it leaves an engine: with the bytes that went and came, without what stays at the client."""
    received = byte_count(outcome.reply) if outcome.reply is not None else 0
    return replace(outcome, private=None, sent=sent, received=received)
