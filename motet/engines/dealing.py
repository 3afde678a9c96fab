"""Decide which tasks a worker does next, for every engine that has several workers."""

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence

from motet.engines.engine import Groups
from motet.errors import MotetError
from motet.messages.task import Outcome, Task

TRIES = 3  # how many workers may die on the same group before the run fails
LEAST_GROUPS = 4  # so that several cores have work
TINY = 2**13  # weights of a net up to which one computation for all clients is faster than several cores
MEMORY = "killed, as the system does when memory is short"
BACKLOG = 256 * 2**20  # bytes of replies that may wait for an earlier one


def batches_of_clients(most: int, samples: Callable[[int], int], weights: int = TINY + 1) -> Groups:
    """Return the rule that puts up to `most` trainings into a group, clients with most samples first.

    The groups are the same for the same tasks on any machine; other kinds of tasks are done one by one. `weights` is
    the size of the net.
    """
    least = 1 if weights <= TINY else LEAST_GROUPS

    def groups(tasks: Sequence[Task]) -> list[list[int]]:
        train = bool(tasks) and tasks[0].kind == "train"
        size = min(most, -(-len(tasks) // least)) if train else 1
        if size <= 1:
            return [[i] for i in range(len(tasks))]
        order = sorted(range(len(tasks)), key=lambda i: -samples(tasks[i].client_id))
        return [order[at : at + size] for at in range(0, len(order), size)]

    return groups


class Dealing:
    """The tasks of one `Engine.run`, in groups that are done as one.

    The longest group goes first, so that workers end at the same time. Outcomes are needed in the order of the tasks:
    once those that came early take much memory, the group that all wait for goes first instead.
    """

    def __init__(self, tasks: Sequence[Task], groups: Sequence[Sequence[int]], samples: Mapping[int, int]):
        """Take tasks, groups as lists of their indices, and the training samples by client, which estimate the time."""
        self._places = groups
        self._tasks = [[tasks[i] for i in group] for group in groups]
        self._length = [sum(samples.get(task.client_id, 0) for task in group) for group in self._tasks]
        self._waiting = sorted(range(len(groups)), key=self.length)
        self._tries = [0] * len(groups)
        self._early: dict[int, Outcome] = {}  # outcomes that wait for earlier ones, by the index of their task
        self._next = 0  # the index of the outcome that is due next
        self._done = 0

    def __len__(self) -> int:
        """Return how many groups there are."""
        return len(self._places)

    @property
    def anything_waits(self) -> bool:
        """Whether there is a group that no worker has yet."""
        return bool(self._waiting)

    @property
    def waiting(self) -> int:
        """How many groups no worker has yet."""
        return len(self._waiting)

    @property
    def finished(self) -> bool:
        """Whether every group is done."""
        return self._done == len(self._places)

    def hand_out(self) -> int:
        """Return the number of the group to do next; the caller ends it with `done`, `lost` or `give_back`."""
        if sum(outcome.received for outcome in self._early.values()) > BACKLOG:
            group = min(self._waiting, key=lambda g: min(self._places[g]))
            self._waiting.remove(group)
        else:
            group = self._waiting.pop()
        self._tries[group] += 1
        return group

    def length(self, group: int) -> int:
        """Return how long a group takes, in training samples."""
        return self._length[group]

    def tasks(self, group: int) -> list[Task]:
        """Return the tasks of a group."""
        return self._tasks[group]

    def done(self, group: int, outcomes: Sequence[Outcome]) -> None:
        """Add the outcomes of a group, in the order of its tasks."""
        self._done += 1
        self._early |= zip(self._places[group], outcomes, strict=True)

    def ready(self) -> Iterator[Outcome]:
        """Yield the outcomes that are due, in the order of the tasks."""
        while self._next in self._early:
            yield self._early.pop(self._next)
            self._next += 1

    def give_back(self, group: int) -> None:
        """Put a group back that nobody began."""
        self._tries[group] -= 1
        self._waiting.append(group)

    def lost(self, group: int, cause: str = "") -> None:
        """Put a group back whose worker died; after `TRIES` workers have died on it, raise with the clients' names.

        `cause` says why the last of them died, as far as that is known.
        """
        if self._tries[group] >= TRIES:
            clients = ", ".join(str(task.client_id) for task in self._tasks[group])
            raise MotetError(
                f"the work of client {clients} ended its process {TRIES} times{f' ({cause})' if cause else ''}; "
                f"accepted: work that fits in memory (try engine.name=inline to see why)"
            )
        self._waiting.append(group)


def death_of(exit_code: int | None) -> str:
    """Return the likely cause of a worker's death in words, from the exit code of its process; may be empty."""
    if exit_code == -signal.SIGKILL:
        return MEMORY
    if not exit_code:
        return ""
    return f"by signal {-exit_code}" if exit_code < 0 else f"with exit code {exit_code}"
