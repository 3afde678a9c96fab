"""Where client work runs. An engine carries tasks and outcomes; it does not know what they mean."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from motet.message import Message, State

Kind = Literal["prepare", "train", "score", "sync_score", "adapt", "export"]


@dataclass(frozen=True)
class Task:
    """One piece of work for one client."""

    kind: Kind
    client_id: int
    round: int
    letter: Message | Callable[[], Message]  # many tasks wait at once, so that messages had better be written late

    @property
    def message(self) -> Message:
        """What the client is told; written when it is asked for, so ask when the task is handed out."""
        return self.letter() if callable(self.letter) else self.letter


@dataclass(frozen=True)
class Outcome:
    """What came of it: a reply and perhaps a new private state, or the reason why there is none."""

    client_id: int
    reply: Message | None
    private: State | None
    failure: str | None


Perform = Callable[[Task, State], Outcome]
Groups = Callable[[Sequence[Task]], list[list[int]]]


def each_alone(tasks: Sequence[Task]) -> list[list[int]]:
    """No tasks belong together."""
    return [[i] for i in range(len(tasks))]


class Work(Protocol):
    """What an engine is given to do: tasks, some of which are better done as one."""

    def groups(self, tasks: Sequence[Task]) -> list[list[int]]:
        """Which of the tasks belong together."""

    def perform_together(self, tasks: Sequence[Task], privates: Sequence[State]) -> list[Outcome]:
        """Do a group of tasks, with the private state of each client."""


@dataclass(frozen=True)
class OneByOne:
    """A function for one task as work: no tasks are done together."""

    perform: Perform

    def groups(self, tasks: Sequence[Task]) -> list[list[int]]:
        """Each its own."""
        return each_alone(tasks)

    def perform_together(self, tasks: Sequence[Task], privates: Sequence[State]) -> list[Outcome]:
        """One after the other."""
        return [self.perform(task, private) for task, private in zip(tasks, privates, strict=True)]


class Engine(ABC):
    """Runs tasks and keeps the clients' private states where the clients are."""

    @abstractmethod
    def run(self, tasks: Sequence[Task]) -> list[Outcome]:
        """The outcomes in the order of the tasks; private states are kept by the engine and not among them."""

    @abstractmethod
    def private(self, client_id: int) -> State:
        """A client's private state, for the checkpoint."""

    @abstractmethod
    def restore(self, client_id: int, state: State) -> None:
        """Give a client its private state back, on resume."""

    def close(self) -> None:  # noqa: B027  nothing to stop is a fine default
        """Stop whatever the engine started."""
