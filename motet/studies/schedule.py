"""Run workflows side by side: each asks for jobs, waits until all of them ended, and decides what comes next.

The decisions of a workflow depend only on its own jobs, so that the result is the same for any number of processes and
after any interruption.
"""

from collections import deque
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, Protocol, TypeVar

from motet.data.built_once import built_once
from motet.studies.job import Job, attempt
from motet.studies.workers import Workers

T = TypeVar("T")
Key = TypeVar("Key", bound=Hashable)  # the name of a workflow, and its split

Failures = dict[str, str]  # by the job's label, the sentence with which it ended
Workflow = Generator[Sequence[Job], Failures, T]
"""A generator that yields jobs which may run at the same time, is sent those that failed, and returns its result."""


class StudyWatcher(Protocol):
    """An object that is called with the progress of a study."""

    def expect(self, rounds: int) -> None:
        """Take note that the study now has so many rounds in all."""

    def began(self, job: Job) -> None:
        """Take note that a job began."""

    def round(self, job: Job, round: int) -> None:
        """Take note that a round of a job ended."""

    def ended(self, job: Job, failure: str | None) -> None:
        """Take note that a job is done, or failed with this sentence."""


@dataclass
class _State(Generic[T]):
    """A workflow and the jobs that it waits for."""

    line: Workflow[T]
    waiting: int = 0  # number of jobs that have not ended
    failures: Failures = field(default_factory=dict)


def sharing_data(jobs: int) -> AbstractContextManager[None]:
    """Return a block that keeps the data in memory, so that jobs in this process do not read them again."""
    return built_once() if jobs == 1 else nullcontext()


def work_off(lines: Mapping[Key, Workflow[T]], jobs: int, progress: StudyWatcher) -> dict[Key, T]:
    """Run workflows to their end and return what each returned; at most so many jobs at a time.

    One at a time runs in this process, several run in worker processes.
    """
    results: dict[Key, T] = {}
    states = {name: _State(line) for name, line in lines.items()}
    queue: deque[tuple[Key, Job]] = deque()

    def go_on(name: Key, first: bool = False) -> None:
        """Continue a workflow until it waits for a job, or ends."""
        state = states[name]
        while True:
            try:
                wanted = next(state.line) if first else state.line.send(state.failures)
            except StopIteration as end:
                results[name] = end.value
                return
            first, state.failures = False, {}
            missing = [job for job in wanted if not job.done]
            for job in wanted:
                if job not in missing:
                    progress.ended(job, None)
            if missing:
                state.waiting = len(missing)
                queue.extend((name, job) for job in missing)
                return

    def ended(name: Key, job: Job, failure: str | None) -> None:
        progress.ended(job, failure)
        state = states[name]
        if failure is not None:
            state.failures[job.label] = failure
        state.waiting -= 1
        if not state.waiting:
            go_on(name)

    for name in states:
        go_on(name, first=True)
    if jobs == 1:
        _in_this_process(queue, progress, ended)
    else:
        with Workers(jobs) as workers:
            workers.work_off(queue, progress, ended)
    return {name: results[name] for name in lines}


def _in_this_process(
    queue: deque[tuple[Key, Job]], progress: StudyWatcher, ended: Callable[[Key, Job, str | None], None]
) -> None:
    with built_once():
        while queue:
            name, job = queue.popleft()
            progress.began(job)
            ended(name, job, attempt(job, partial(progress.round, job)))
