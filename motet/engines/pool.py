"""Worker processes on one machine, one thread each; the numbers are the inline engine's to the bit."""

import json
import math
import multiprocessing
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import ModuleType
from typing import Any

import torch.multiprocessing  # noqa: F401  teaches processes to hand tensors over in shared memory

from motet.engines.client_states import WithStates
from motet.engines.dealing import Dealing
from motet.engines.engine import Groups, Work, each_alone
from motet.engines.inline import perform_and_keep
from motet.engines.shared_memory import InBox, OutBox
from motet.engines.worker import STOP, work
from motet.errors import MotetError
from motet.io.user_code import unpacked
from motet.messages.message import byte_count, decode, pieces
from motet.messages.task import Outcome, Task, counted

TRIES = 3  # how often workers may die while they start
_SAFE_PATH = "PYTHONSAFEPATH"  # Python's -P
PATIENCE = 3.0  # seconds of work after which workers are worth their start, which takes about as long


@dataclass
class Worker:
    """The parent's view of one worker process."""

    process: SpawnProcess
    connection: Connection
    outbox: OutBox = field(default_factory=OutBox)
    inbox: InBox = field(default_factory=InBox)
    ready: bool = False
    group: int | None = None  # which of the groups of tasks it works on
    sent: list[int] = field(default_factory=list)  # bytes of their messages

    def leave(self) -> None:
        """Stop, politely if it listens."""
        if self.ready and self.group is None:
            with suppress(OSError):  # it died since
                self.connection.send_bytes(STOP)
            self.process.join(timeout=5)
        self.end()

    def end(self) -> None:
        """Stop at once."""
        self.process.terminate()
        self.process.join()
        self.connection.close()
        self.outbox.close()
        self.inbox.close()


class Pool(WithStates):
    """Persistent workers. A worker that dies is replaced and its client's work repeated."""

    def __init__(
        self,
        build: Callable[[], Work],
        workers: int,
        samples: Mapping[int, int],
        meanwhile: Work | None = None,
        patience: float = PATIENCE,
        groups: Groups = each_alone,
        folder: Path | None = None,
    ):
        """`build` makes a workplace in a new process; `samples` tells which clients take long, `groups` which tasks
        are done as one.

        With `meanwhile` this process does the work itself until workers are ready, and hires them only after
        `patience` seconds of it. Without, workers are hired at once and do everything. States are kept in `folder`.
        """
        super().__init__(folder)
        self.build, self.size, self.samples = build, workers, samples
        self.meanwhile, self.patience = meanwhile, patience if meanwhile else 0.0
        self.groups = groups
        self.workers: list[Worker] = []
        self.began = math.inf
        self.false_starts = 0

    def run(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        self.began = min(self.began, time.monotonic())
        try:
            yield from self._work_off(tasks)
        finally:
            for worker in [w for w in self.workers if w.group is not None]:  # only after an error, or Ctrl-C
                self._dismiss(worker)

    def close(self) -> None:
        """Idle workers leave by themselves, busy ones are ended."""
        for worker in self.workers:
            worker.leave()
        self.workers.clear()
        super().close()

    def _work_off(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        dealing = Dealing(tasks, self.groups(tasks), self.samples)
        while not dealing.finished:
            self._staff(len(dealing))
            for worker in self.workers:
                if worker.ready and worker.group is None and dealing.anything_waits:
                    worker.group = dealing.hand_out()
                    self._hand_out(worker, dealing.tasks(worker.group))
            yield from dealing.ready()  # while the workers work
            for worker in self._heard_of():
                group, worker.group = worker.group, None
                if group is None:
                    self._welcome(worker)
                elif (found := self._take_in(worker)) is not None:
                    dealing.done(group, found)
                else:
                    dealing.lost(group)
            if self.meanwhile and dealing.anything_waits and not self._anyone_ready:
                here = dealing.hand_out()
                dealing.done(here, perform_and_keep(self.meanwhile, dealing.tasks(here), self.states))
        yield from dealing.ready()

    # ------------------------------------------------------------ workers

    @property
    def _anyone_ready(self) -> bool:
        return any(worker.ready for worker in self.workers)

    def _staff(self, tasks: int) -> None:
        """Hire, if there is enough to do for long enough; nobody waits for the new ones."""
        worthwhile = tasks > 1 or not self.meanwhile
        if worthwhile and time.monotonic() - self.began >= self.patience:
            while len(self.workers) < min(self.size, tasks):
                self._hire()

    def _hire(self) -> None:
        context = multiprocessing.get_context("spawn")  # forked workers hang once torch has used its threads
        here, there = context.Pipe()
        process = context.Process(target=work, args=(there, os.getpid(), self.build), daemon=True, name="motet-worker")
        try:
            with _no_main_module(), _safe_path(), _no_ctrl_c():
                process.start()
        except Exception as error:  # whatever it is: no shared memory left, a method that only the main script knows
            here.close()
            self._do_without(f"{type(error).__name__}: {error}")
        else:
            self.workers.append(Worker(process, here))
        finally:
            there.close()

    def _welcome(self, worker: Worker) -> None:
        """A worker's first words: it is ready, or it cannot be."""
        answer = self._hear(worker)
        if answer is None:
            self.false_starts += 1
            if self.false_starts >= TRIES:
                self._do_without(f"a worker ended {TRIES} times while it started")
        elif answer["theirs"] and not self.meanwhile:
            raise unpacked(answer["theirs"])
        elif wrong := answer["mistake"] or answer["bug"] or (answer["theirs"] or {}).get("words"):
            self._dismiss(worker)
            self._do_without(wrong.strip().splitlines()[-1])
        else:
            worker.ready = True

    def _do_without(self, reason: str) -> None:
        """No more workers: the others go on, or this process alone."""
        if not self.meanwhile:
            raise MotetError(f"no worker process can be started ({reason}); accepted: engine.name=inline")
        if self.size:
            warnings.warn(f"going on without more worker processes: {reason}", RuntimeWarning, stacklevel=2)
        self.size = 0

    def _dismiss(self, worker: Worker) -> None:
        worker.end()
        self.workers.remove(worker)

    def _hand_out(self, worker: Worker, tasks: Sequence[Task]) -> None:
        pairs = [(task.build_message(), self.states.get(task.client_id)) for task in tasks]
        worker.sent = [byte_count(message) for message, _ in pairs]
        parts = [pieces(state) for pair in pairs for state in pair]
        order = {
            "tasks": [[task.kind, task.client_id, task.round] for task in tasks],
            "new_box": worker.outbox.write(*chain(*parts)),
            "sizes": [sum(map(len, of_one)) for of_one in parts],
        }
        with suppress(OSError):  # it died since; `_take_in` will find out
            worker.connection.send_bytes(json.dumps(order).encode())
            if order["new_box"]:
                worker.outbox.hand_over(worker.connection, worker.process.pid or 0)

    def _heard_of(self) -> list[Worker]:
        """Workers that answered or died; who works here meanwhile does not wait for it."""
        expected = [w.connection for w in self.workers if w.group is not None or not w.ready]
        ready = set(wait(expected, timeout=0 if self.meanwhile and not self._anyone_ready else None))
        return [w for w in self.workers if w.connection in ready]

    def _hear(self, worker: Worker) -> dict[str, Any] | None:
        """What a worker says; None if it died, and then it is one of the workers no more."""
        try:
            answer: dict[str, Any] = json.loads(worker.connection.recv_bytes())
            if answer["new_box"]:
                worker.inbox.receive(worker.connection)
        except (EOFError, OSError):
            self._dismiss(worker)
            return None
        return answer

    def _take_in(self, worker: Worker) -> list[Outcome] | None:
        """The outcomes of a group, private states kept; None if the worker died."""
        answer = self._hear(worker)
        if answer is None:
            return None
        if answer["mistake"]:
            raise MotetError(answer["mistake"])
        if answer["theirs"]:
            raise unpacked(answer["theirs"])
        if answer["bug"]:
            raise RuntimeError(f"in a worker process:\n{answer['bug']}")
        sizes = [size for size in answer["sizes"] if size is not None]
        encoded = iter(worker.inbox.read(*sizes) if sizes else [])
        states = [None if size is None else decode(next(encoded)) for size in answer["sizes"]]
        outcomes = []
        for words, reply, private, sent in zip(answer["outcomes"], states[::2], states[1::2], worker.sent, strict=True):
            kind, client_id, round, failure, loss = words
            if private is not None:
                self.states.put(client_id, private)
            outcome = Outcome(kind, client_id, round, reply, failure=failure, train_loss=loss)
            outcomes.append(counted(outcome, sent))
        return outcomes


@contextmanager
def _no_main_module() -> Iterator[None]:
    """A worker needs nothing of the script that called `motet.run`, and must not run it a second time."""
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


@contextmanager
def _safe_path() -> Iterator[None]:
    """Processes that start here do not import from the current folder, which may be a stranger's.

    A worker and the resource tracker start by `python -c`, which looks there first: a `pickle.py` in it would run
    before any word of ours. What a user's own code imports comes with the parent's path, after Python has started.
    """
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        os.environ.pop(_SAFE_PATH)
        if before is not None:
            os.environ[_SAFE_PATH] = before


@contextmanager
def _no_ctrl_c() -> Iterator[None]:
    """Ctrl-C, and a terminal that goes away, are the parent's to handle: a process started here inherits that it hears
    nothing of them."""
    resource_tracker.ensure_running()  # or the first start does it, and lets Ctrl-C through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
