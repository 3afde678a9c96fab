"""One process, one client after the other: the reference for correctness and for a debugger."""

from collections.abc import Sequence
from dataclasses import replace

from motet.engines.engine import Engine, Outcome, Task, Work
from motet.engines.store import PrivateStore
from motet.message import State


class Inline(Engine):
    """Does the work directly."""

    def __init__(self, work: Work):
        self.work = work
        self.store = PrivateStore()

    def run(self, tasks: Sequence[Task]) -> list[Outcome]:
        outcomes: dict[int, Outcome] = {}
        for group in self.work.groups(tasks):
            done = perform_and_keep(self.work, [tasks[i] for i in group], self.store)
            outcomes |= zip(group, done, strict=True)
        return [outcomes[i] for i in range(len(tasks))]

    def private(self, client_id: int) -> State:
        return self.store.get(client_id)

    def restore(self, client_id: int, state: State) -> None:
        self.store.put(client_id, state)

    def close(self) -> None:
        """Remove what the store wrote to disk."""
        self.store.close()


def perform_and_keep(work: Work, tasks: Sequence[Task], store: PrivateStore) -> list[Outcome]:
    """Do a group of tasks in this process; new private states go to the store, and only there."""
    outcomes = work.perform_together(tasks, [store.get(task.client_id) for task in tasks])
    for outcome in outcomes:
        if outcome.private is not None:
            store.put(outcome.client_id, outcome.private)
    return [replace(outcome, private=None) for outcome in outcomes]
