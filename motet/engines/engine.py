"""What an engine is: it carries tasks to clients and outcomes back, and does not know what they mean."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from motet.errors import MotetError
from motet.io.hashed_files import ClientFiles
from motet.messages.message import State
from motet.messages.task import Outcome, Task

Perform = Callable[[Task, State], Outcome]
Groups = Callable[[Sequence[Task]], list[list[int]]]
"""Which tasks are done as one, by their places in the list."""


def each_alone(tasks: Sequence[Task]) -> list[list[int]]:
    """Return groups of one task each."""
    return [[i] for i in range(len(tasks))]


class Work(Protocol):
    """What does the tasks of a group, where the clients are."""

    def perform_group(self, tasks: Sequence[Task], privates: Sequence[State]) -> list[Outcome]:
        """Do a group of tasks, with the private state of each client."""


@dataclass(frozen=True)
class OneByOne:
    """A function for one task as work."""

    perform: Perform

    def perform_group(self, tasks: Sequence[Task], privates: Sequence[State]) -> list[Outcome]:
        """Do one task after the other."""
        return [self.perform(task, private) for task, private in zip(tasks, privates, strict=True)]


class Engine(ABC):
    """Runs tasks and keeps the clients' private states where the clients are."""

    @abstractmethod
    def run(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        """Yield one outcome per task, in the order of the tasks and as early as that order allows.

        Private states are kept by the engine and are not among the outcomes. Whoever takes the outcomes one by one and
        holds on to none of them needs the memory of a few.
        """

    def available(self, client_ids: Sequence[int]) -> list[int]:
        """Return which of these clients can be asked now, in the same order; in a simulation all of them."""
        return list(client_ids)

    @abstractmethod
    def keep(self, round: int) -> ClientFiles:
        """Put the private states as they are now where a kill cannot reach them; return how to find each client's."""

    def kept(self, round: int) -> None:  # noqa: B027  an engine may leave that to its sites
        """Note that what `keep` returned is in a checkpoint: states that only older checkpoints need may go."""

    @abstractmethod
    def go_back(self, round: int, entries: ClientFiles) -> None:
        """Give every client the private state again that it had at that checkpoint; `Damaged` if that cannot be."""

    def private(self, client_id: int) -> State:
        """Return a client's private state, to serve its model where all data are in one place.

        Rounds never ask for it, and an engine whose clients are elsewhere does not have it.
        """
        raise MotetError(
            f"the private state of client {client_id} stays where the client is; accepted: an engine on this machine, "
            f"or the client's own model at its site"
        )

    def close(self) -> None:  # noqa: B027  nothing to stop is a fine default
        """Stop whatever the engine started."""
