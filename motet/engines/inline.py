"""One process, one client after the other: the reference for correctness and for a debugger."""

from collections.abc import Sequence
from pathlib import Path

from motet.engines.client_states import ClientStates, WithStates
from motet.engines.engine import Outcome, Task, Work, counted
from motet.messages.message import byte_count


class Inline(WithStates):
    """Does the work directly."""

    def __init__(self, work: Work, folder: Path | None = None):
        super().__init__(folder)
        self.work = work

    def run(self, tasks: Sequence[Task]) -> list[Outcome]:
        outcomes: dict[int, Outcome] = {}
        for group in self.work.groups(tasks):
            done = perform_and_keep(self.work, [tasks[i] for i in group], self.states)
            outcomes |= zip(group, done, strict=True)
        return [outcomes[i] for i in range(len(tasks))]


def perform_and_keep(work: Work, tasks: Sequence[Task], states: ClientStates) -> list[Outcome]:
    """Do a group of tasks in this process; new private states are kept, and only here."""
    tasks = [task.with_message() for task in tasks]
    outcomes = work.perform_group(tasks, [states.get(task.client_id) for task in tasks])
    for outcome in outcomes:
        if outcome.private is not None:
            states.put(outcome.client_id, outcome.private)
    return [counted(outcome, byte_count(task.build_message())) for task, outcome in zip(tasks, outcomes, strict=True)]
