"""One process, one client after the other: the reference for correctness and for a debugger."""

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from motet.engines.client_states import ClientStates, WithStates
from motet.engines.engine import Groups, Work, each_alone
from motet.messages.message import byte_count
from motet.messages.task import Outcome, Task, counted, in_task_order


class Inline(WithStates):
    """Does the work directly, group after group."""

    def __init__(self, work: Work, folder: Path | None = None, groups: Groups = each_alone):
        """Work on tasks in these groups; private states are kept in `folder`, or without one in memory."""
        super().__init__(folder)
        self.work, self.groups = work, groups

    def run(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        groups = ([tasks[i] for i in group] for group in self.groups(tasks))
        return in_task_order(tasks, chain.from_iterable(perform_and_keep(self.work, g, self.states) for g in groups))


def perform_and_keep(work: Work, tasks: Sequence[Task], states: ClientStates) -> list[Outcome]:
    """Do a group of tasks in this process; new private states are kept, and only here."""
    tasks = [task.with_message() for task in tasks]
    outcomes = work.perform_group(tasks, [states.get(task.client_id) for task in tasks])
    for outcome in outcomes:
        if outcome.private is not None:
            states.put(outcome.client_id, outcome.private)
    return [counted(outcome, byte_count(task.build_message())) for task, outcome in zip(tasks, outcomes, strict=True)]
