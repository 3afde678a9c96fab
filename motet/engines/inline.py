"""One process, one client after the other: the reference for correctness and for a debugger."""

from collections.abc import Sequence

from motet.engines.engine import Engine, Outcome, Perform, Task
from motet.engines.store import PrivateStore
from motet.message import State


class Inline(Engine):
    """Calls the workplace directly."""

    def __init__(self, perform: Perform):
        self.perform = perform
        self.store = PrivateStore()

    def run(self, tasks: Sequence[Task]) -> list[Outcome]:
        outcomes = []
        for task in tasks:
            outcome = self.perform(task, self.private(task.client_id))
            if outcome.private is not None:
                self.restore(task.client_id, outcome.private)
            outcomes.append(outcome)
        return outcomes

    def private(self, client_id: int) -> State:
        return self.store.get(client_id)

    def restore(self, client_id: int, state: State) -> None:
        self.store.put(client_id, state)

    def close(self) -> None:
        """Remove what the store wrote to disk."""
        self.store.close()
