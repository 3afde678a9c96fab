"""Where client work runs. An engine carries tasks and outcomes; it does not know what they mean."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from motet.message import Message, State

Kind = Literal["prepare", "train", "score", "sync_score", "adapt"]


@dataclass(frozen=True)
class Task:
    """One piece of work for one client."""

    kind: Kind
    client_id: int
    round: int
    message: Message


@dataclass(frozen=True)
class Outcome:
    """What came of it: a reply and perhaps a new private state, or the reason why there is none."""

    client_id: int
    reply: Message | None
    private: State | None
    failure: str | None


Perform = Callable[[Task, State], Outcome]


class Engine(ABC):
    """Runs tasks and keeps the clients' private states where the clients are."""

    @abstractmethod
    def run(self, tasks: Sequence[Task]) -> list[Outcome]:
        """The outcomes in the order of the tasks; private states are already kept."""

    @abstractmethod
    def private(self, client_id: int) -> State:
        """A client's private state, for the checkpoint."""

    @abstractmethod
    def restore(self, client_id: int, state: State) -> None:
        """Give a client its private state back, on resume."""

    def close(self) -> None:  # noqa: B027  nothing to stop is a fine default
        """Stop whatever the engine started."""
