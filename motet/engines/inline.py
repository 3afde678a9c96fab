"""The engine that does all work in this process, one group after the other: the reference, and good for debugging."""

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from motet.engines.client_states import ClientStates, WithStates
from motet.engines.engine import Groups, Work, each_alone
from motet.messages.message import byte_count
from motet.messages.task import Outcome, Task, counted, in_task_order


class Inline(WithStates):
    """An engine that does the work in this process, one group of tasks after the other."""

    def __init__(self, work: Work, folder: Path | None = None, groups: Groups = each_alone):
        """Split tasks by `groups`; keep the states of checkpoints in `folder`, or in memory without one."""
        super().__init__(folder)
        self.work, self.groups = work, groups

    def run(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        groups = ([tasks[i] for i in group] for group in self.groups(tasks))
        return in_task_order(tasks, chain.from_iterable(perform_and_keep(self.work, g, self.states) for g in groups))


def perform_and_keep(work: Work, tasks: Sequence[Task], states: ClientStates) -> list[Outcome]:
    """Do a group of tasks in this process, store new private states in `states`, and return the outcomes."""
    tasks = [task.with_message() for task in tasks]
    outcomes = work.perform_group(tasks, [states.get(task.client_id) for task in tasks])
    for outcome in outcomes:
        if outcome.private is not None:
            states.put(outcome.client_id, outcome.private)
    return [counted(outcome, byte_count(task.build_message())) for task, outcome in zip(tasks, outcomes, strict=True)]
