"""The interface of an engine, which runs tasks at clients and returns outcomes without knowing what they mean."""

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
"""Splits tasks into groups that are computed together; a group is a list of indices of tasks."""


def each_alone(tasks: Sequence[Task]) -> list[list[int]]:
    """Return groups of one task each."""
    return [[i] for i in range(len(tasks))]


class LostStates(MotetError):
    """Raised when private states that changed since the newest checkpoint are lost; the run goes back to it."""


class Work(Protocol):
    """Performs tasks where the data of the clients are."""

    def perform_group(self, tasks: Sequence[Task], privates: Sequence[State]) -> list[Outcome]:
        """Do a group of tasks, given the private state of each client, and return their outcomes in the same order."""


@dataclass(frozen=True)
class OneByOne:
    """Work made from a function that does one task."""

    perform: Perform

    def perform_group(self, tasks: Sequence[Task], privates: Sequence[State]) -> list[Outcome]:
        """Do one task after the other."""
        return [self.perform(task, private) for task, private in zip(tasks, privates, strict=True)]


class Engine(ABC):
    """Runs tasks and keeps the clients' private states where the clients are."""

    @abstractmethod
    def run(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        """Yield one outcome per task, in the order of the tasks and as early as that order allows.

        The engine stores new private states itself; they are not part of the outcomes. Outcomes that the caller does
        not hold on to are freed, so that a large cohort needs the memory of a few replies.
        """

    def available(self, client_ids: Sequence[int]) -> list[int]:
        """Return which of these clients can be asked now, in the same order; in a simulation all of them."""
        return list(client_ids)

    def fewest(self, cohort: int) -> int:
        """Return with how many clients a round may go on that would take a cohort of this size; default that many."""
        return cohort

    @abstractmethod
    def keep(self, round: int) -> ClientFiles:
        """Store the present private states so that they survive a kill, and return the entry of each client's."""

    def kept(self, round: int, also: ClientFiles | None = None) -> None:  # noqa: B027  doing nothing is a valid default
        """Note that the checkpoint with what `keep` returned is complete, so that older states may be deleted.

        `also` are states of an older checkpoint that stays: the one of the best round.
        """

    @abstractmethod
    def go_back(self, round: int, entries: ClientFiles) -> None:
        """Restore the private states of all clients from a checkpoint; raise `Damaged` if one cannot be read."""

    def private(self, client_id: int) -> State:
        """Return a client's private state, to serve its model where all data are in one place.

        Rounds never call this, and an engine whose clients are on other machines raises `MotetError`.
        """
        raise MotetError(
            f"the private state of client {client_id} stays where the client is; accepted: an engine on this machine, "
            f"or the client's own model at its site"
        )

    def close(self) -> None:  # noqa: B027  doing nothing is a valid default
        """Stop processes and delete temporary files of the engine."""
