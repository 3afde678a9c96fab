"""The loop of every engine with several workers, wherever they are: deal groups, take outcomes in, replace the dead."""

import math
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from motet.engines.client_states import WithStates
from motet.engines.dealing import Dealing
from motet.engines.engine import Groups, Work
from motet.engines.inline import perform_and_keep
from motet.errors import MotetError
from motet.io.user_code import unpacked
from motet.messages.message import State
from motet.messages.task import Outcome, Task, counted

FALSE_STARTS = 3  # how many workers may die while they start before an engine gives up


@dataclass(kw_only=True)
class Worker:
    """The engine's view of one worker."""

    ready: bool = False
    group: int | None = None  # the group of tasks it works on
    ahead: int | None = None  # the group that it was sent too, so that it need not wait between two
    sent: list[int] = field(default_factory=list)  # bytes of the message of each task in the group
    cause: str = ""  # why it died, as far as that is known

    @property
    def groups(self) -> list[int]:
        """The groups that it works on and has ahead."""
        return [group for group in (self.group, self.ahead) if group is not None]


W = TypeVar("W", bound=Worker)


class SeveralWorkers(WithStates, Generic[W]):
    """An engine of persistent workers. A worker that dies is replaced, and its group of tasks is repeated."""

    def __init__(
        self,
        workers: int,
        samples: Mapping[int, int],
        groups: Groups,
        folder: Path | None,
        meanwhile: Work | None = None,
        patience: float = 0.0,
    ):
        """Set up the engine; workers start when there is work.

        `samples` has the training samples by client, which estimate the time, and `groups` splits tasks into groups
        that are computed together. With `meanwhile`, this process does the work itself until workers are ready, and
        starts them only after `patience` seconds of work. The states of checkpoints are kept in `folder`.
        """
        super().__init__(folder)
        self.size, self.samples, self.groups = workers, samples, groups
        self.meanwhile, self.patience = meanwhile, patience
        self.workers: list[W] = []
        self.began = math.inf

    def run(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        self.began = min(self.began, time.monotonic())
        try:
            yield from self._run(tasks)
        finally:
            for worker in [w for w in self.workers if w.group is not None]:  # only after an error, or Ctrl-C
                self._remove(worker)

    def _run(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        dealing = Dealing(tasks, self.groups(tasks), self.samples)
        while not dealing.finished:
            self._start_missing_workers(len(dealing))
            for worker in self.workers:
                if worker.ready and worker.group is None and dealing.anything_waits:
                    worker.group = dealing.hand_out()
                    self._send(worker, dealing.tasks(worker.group))
            self._send_some_ahead(dealing)
            yield from dealing.ready()  # while the workers work
            for worker in self._answered_or_dead():
                group, worker.group = worker.group, None
                if group is None:
                    self._finish_start(worker)
                elif (found := self._receive_outcomes(worker, dealing.tasks(group))) is not None:
                    dealing.done(group, found)
                else:
                    dealing.lost(group, worker.cause)
                if worker.ahead is not None:
                    self._go_on(worker, dealing)
            if self.meanwhile and dealing.anything_waits and not self._anyone_ready:
                here = dealing.hand_out()
                dealing.done(here, perform_and_keep(self.meanwhile, dealing.tasks(here), self.states))
        yield from dealing.ready()

    def _send_some_ahead(self, dealing: Dealing) -> None:
        """Send busy workers their next group, the one with least to do first, so that they end together as without it.

        The last groups, one for each worker, are kept for those that are done first.
        """
        busy = {worker.group: worker for worker in self.workers if worker.group is not None}
        while busy and dealing.waiting > len(self.workers):
            worker = busy[min(busy, key=lambda g: sum(map(dealing.length, busy[g].groups)))]
            if worker.ahead is not None or not self._send_ahead(worker, dealing):
                return

    def _go_on(self, worker: W, dealing: Dealing) -> None:
        """Let a worker that is alive have the group it was sent ahead; of a dead one, put that group back."""
        assert worker.ahead is not None
        if worker in self.workers:
            worker.group, worker.ahead = worker.ahead, None
            self._next_answer(worker)
        else:
            dealing.give_back(worker.ahead)

    @property
    def _anyone_ready(self) -> bool:
        return any(worker.ready for worker in self.workers)

    def _start_missing_workers(self, tasks: int) -> None:
        """Start missing workers if the work is worth it, without waiting until they are ready."""
        worthwhile = tasks > 1 or not self.meanwhile
        if worthwhile and time.monotonic() - self.began >= self.patience:
            while len(self.workers) < min(self.size, tasks):
                self._hire()

    # ------------------------------------------------------------ what each kind of worker does in its own way

    @abstractmethod
    def _hire(self) -> None:
        """Start one worker and add it to `workers`; where that fails, raise or set `size` to 0."""

    @abstractmethod
    def _finish_start(self, worker: W) -> None:
        """Read the first answer of a worker: it is ready, or it failed to start."""

    @abstractmethod
    def _send(self, worker: W, tasks: Sequence[Task]) -> None:
        """Send a group of tasks to a worker, with the private states of their clients."""

    def _send_ahead(self, worker: W, dealing: Dealing) -> bool:
        """Send a group to a worker that is busy, if this kind of worker can have two; return whether it can."""
        return False

    def _next_answer(self, worker: W) -> None:
        """Let the answer that comes next be that of the group that was sent ahead."""

    @abstractmethod
    def _answered_or_dead(self) -> list[W]:
        """Return the workers that answered or died; wait for one unless this process works meanwhile."""

    @abstractmethod
    def _receive_outcomes(self, worker: W, tasks: Sequence[Task]) -> list[Outcome] | None:
        """Return the outcomes of a group and store new private states; remove the worker and return None if it died."""

    @abstractmethod
    def _remove(self, worker: W) -> None:
        """End a worker and forget it."""


def raise_what_is_wrong(answer: Mapping[str, Any]) -> None:
    """Raise the error that a worker told of (`what_is_wrong` in worker.py), if it told of one."""
    if answer["mistake"]:
        raise MotetError(answer["mistake"])
    if answer["theirs"]:
        raise unpacked(answer["theirs"])
    if answer["bug"]:
        raise RuntimeError(f"in a worker:\n{answer['bug']}")


def outcome_of(words: Sequence[Any], reply: State | None, sent: int) -> Outcome:
    """Return the outcome that a worker told of (`words_of` in worker.py), with the bytes of its message and reply."""
    kind, client_id, round, failure, loss = words
    return counted(Outcome(kind, client_id, round, reply, failure=failure, train_loss=loss), sent)
