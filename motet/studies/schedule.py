"""Several lines of work side by side: each asks for jobs, waits for all of them, and goes on with what they found.

What a line decides depends on its own jobs alone, so that the result is the same for any number of processes and after
any kill.
"""

from collections import deque
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, Protocol, TypeVar

from motet.data.built_once import built_once
from motet.studies.job import Job, attempt
from motet.studies.workers import Workers

T = TypeVar("T")

Failures = dict[str, str]  # by the job's label, the sentence with which it ended
Workflow = Generator[Sequence[Job], Failures, T]
"""Yields jobs that may be done at the same time, is sent those that failed, returns its result."""


class StudyWatcher(Protocol):
    """Who looks on."""

    def expect(self, rounds: int) -> None:
        """So many are planned in all, where that changed."""

    def began(self, job: Job) -> None:
        """A job is being done."""

    def round(self, job: Job, round: int) -> None:
        """A round of it ended."""

    def ended(self, job: Job, failure: str | None) -> None:
        """It is done, or failed with a sentence."""


@dataclass
class _State(Generic[T]):
    """One line of work."""

    line: Workflow[T]
    waiting: int = 0  # for so many jobs
    failures: Failures = field(default_factory=dict)


def sharing_data(jobs: int) -> AbstractContextManager[None]:
    """Keep the data in memory between looking at them and running jobs, where this process does both."""
    return built_once() if jobs == 1 else nullcontext()


def work_off(lines: Mapping[str, Workflow[T]], jobs: int, progress: StudyWatcher) -> dict[str, T]:
    """What each line returns; at most so many jobs at a time, each in a process of its own where there are several."""
    results: dict[str, T] = {}
    states = {name: _State(line) for name, line in lines.items()}
    queue: deque[tuple[str, Job]] = deque()

    def go_on(name: str, first: bool = False) -> None:
        """Until the line waits for a job, or ends."""
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

    def ended(name: str, job: Job, failure: str | None) -> None:
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


def _in_this_process(queue: deque[tuple[str, Job]], progress: StudyWatcher, ended: "Ended") -> None:
    with built_once():
        while queue:
            name, job = queue.popleft()
            progress.began(job)
            ended(name, job, attempt(job, partial(progress.round, job)))


class Ended(Protocol):
    """What is called when a job of a line ended."""

    def __call__(self, name: str, job: Job, failure: str | None) -> None:
        """With the line's name, and the sentence where it failed."""
