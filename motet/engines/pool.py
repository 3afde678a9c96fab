"""The engine of worker processes on one machine, one thread each; its numbers equal the inline engine's to the bit."""

import json
import multiprocessing
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from types import ModuleType
from typing import Any

import torch.multiprocessing  # noqa: F401  makes tensors travel between processes in shared memory

from motet.engines.dealing import death_of
from motet.engines.engine import Groups, Work, each_alone
from motet.engines.several_workers import FALSE_STARTS, SeveralWorkers, Worker, outcome_of, raise_what_is_wrong
from motet.engines.shared_memory import InBox, OutBox
from motet.engines.worker import STOP, work
from motet.errors import MotetError
from motet.io.user_code import unpacked
from motet.messages.message import byte_count, decode, pieces
from motet.messages.task import Outcome, Task

_SAFE_PATH = "PYTHONSAFEPATH"  # Python's -P
PATIENCE = 3.0  # seconds of work before workers are started: the first start takes about as long
PRELOADED = ["motet.engines.worker", "motet.server.assembly"]
"""Modules that a server process imports once, from which all workers of this process are forked in an instant."""


@dataclass
class WorkerProcess(Worker):
    """The parent's view of one worker process."""

    process: ForkServerProcess
    connection: Connection
    outbox: OutBox = field(default_factory=OutBox)
    inbox: InBox = field(default_factory=InBox)

    def leave(self) -> None:
        """Ask the process to stop if it is idle, then end it."""
        if self.ready and self.group is None:
            with suppress(OSError):  # it has died
                self.connection.send_bytes(STOP)
            self.process.join(timeout=5)
        self.end()

    def end(self) -> None:
        """End the process at once and free its shared memory."""
        self.process.terminate()
        self.process.join()
        self.connection.close()
        self.outbox.close()
        self.inbox.close()


class Pool(SeveralWorkers[WorkerProcess]):
    """An engine of persistent worker processes. A worker that dies is replaced, and its group of tasks is repeated."""

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
        """Set up the pool; processes start when there is work.

        `build` makes the work object in a new process. Without `meanwhile`, workers start at once and do everything;
        all else is said in `SeveralWorkers`.
        """
        super().__init__(workers, samples, groups, folder, meanwhile, patience if meanwhile else 0.0)
        self.build = build
        self.false_starts = 0

    def close(self) -> None:
        """Let idle workers stop by themselves, end busy ones, and delete temporary files."""
        for worker in self.workers:
            worker.leave()
        self.workers.clear()
        super().close()

    # ------------------------------------------------------------ workers

    def _hire(self) -> None:
        """Start one worker process; where that fails, start no more."""
        # workers forked from this process would hang once torch has used its threads
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        here, there = context.Pipe()
        process = context.Process(
            target=work, args=(there, os.getpid(), dict(os.environ), self.build), daemon=True, name="motet-worker"
        )
        try:
            with _no_main_module(), _safe_path(), _no_ctrl_c():
                process.start()
        except Exception as error:  # many causes: no shared memory left, a method that only the main script defines
            here.close()
            self._start_no_more(f"{type(error).__name__}: {error}")
        else:
            self.workers.append(WorkerProcess(process, here))
        finally:
            there.close()

    def _finish_start(self, worker: WorkerProcess) -> None:
        """Read the first answer of a worker: it is ready, or it failed to start."""
        answer = self._receive(worker)
        if answer is None:
            self.false_starts += 1
            if self.false_starts >= FALSE_STARTS:
                self._start_no_more(f"a worker ended {FALSE_STARTS} times while it started")
        elif answer["theirs"] and not self.meanwhile:
            raise unpacked(answer["theirs"])
        elif wrong := answer["mistake"] or answer["bug"] or (answer["theirs"] or {}).get("words"):
            self._remove(worker)
            self._start_no_more(wrong.strip().splitlines()[-1])
        else:
            worker.ready = True

    def _start_no_more(self, reason: str) -> None:
        """Go on with the workers there are, or in this process alone; raise where this process does no work."""
        if not self.meanwhile:
            raise MotetError(f"no worker process can be started ({reason}); accepted: engine.name=inline")
        if self.size:
            warnings.warn(f"going on without more worker processes: {reason}", RuntimeWarning, stacklevel=2)
        self.size = 0

    def _remove(self, worker: WorkerProcess) -> None:
        worker.end()
        self.workers.remove(worker)

    def _send(self, worker: WorkerProcess, tasks: Sequence[Task]) -> None:
        """Send a group of tasks to a worker, with messages and private states in shared memory."""
        pairs = [(task.build_message(), self.states.get(task.client_id)) for task in tasks]
        worker.sent = [byte_count(message) for message, _ in pairs]
        parts = [pieces(state) for pair in pairs for state in pair]
        order = {
            "tasks": [[task.kind, task.client_id, task.round] for task in tasks],
            "new_box": worker.outbox.write(*chain(*parts)),
            "sizes": [sum(map(len, of_one)) for of_one in parts],
        }
        with suppress(OSError):  # it has died; `_receive_outcomes` notices that
            worker.connection.send_bytes(json.dumps(order).encode())
            if order["new_box"]:
                worker.outbox.hand_over(worker.connection, worker.process.pid or 0)

    def _answered_or_dead(self) -> list[WorkerProcess]:
        """Return the workers that answered or died; wait for one unless this process works meanwhile."""
        expected = [w.connection for w in self.workers if w.group is not None or not w.ready]
        ready = set(wait(expected, timeout=0 if self.meanwhile and not self._anyone_ready else None))
        return [w for w in self.workers if w.connection in ready]

    def _receive(self, worker: WorkerProcess) -> dict[str, Any] | None:
        """Return the answer of a worker, or remove it from the pool and return None if it died."""
        try:
            answer: dict[str, Any] = json.loads(worker.connection.recv_bytes())
            if answer["new_box"]:
                worker.inbox.receive(worker.connection)
        except (EOFError, OSError):
            worker.process.join(timeout=1)  # its end of the pipe closes a moment before it has an exit code
            worker.cause = death_of(worker.process.exitcode)
            self._remove(worker)
            return None
        return answer

    def _receive_outcomes(self, worker: WorkerProcess, tasks: Sequence[Task]) -> list[Outcome] | None:
        answer = self._receive(worker)
        if answer is None:
            return None
        raise_what_is_wrong(answer)
        sizes = [size for size in answer["sizes"] if size is not None]
        encoded = iter(worker.inbox.read(*sizes) if sizes else [])
        states = [None if size is None else decode(next(encoded)) for size in answer["sizes"]]
        for task, private in zip(tasks, states[1::2], strict=True):
            if private is not None:
                self.states.put(task.client_id, private)
        return list(map(outcome_of, answer["outcomes"], states[::2], worker.sent))


@contextmanager
def _no_main_module() -> Iterator[None]:
    """Hide the main script while a process starts: it would otherwise be run again in the worker."""
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


@contextmanager
def _safe_path() -> Iterator[None]:
    """Keep processes that start in this block from importing from the current folder, which may be untrusted.

    The server of workers and the resource tracker start by `python -c`, which looks there first: a `pickle.py` in it
    would run before any code of Motet. The user's own imports still work: workers get the parent's path later.
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
    """Block SIGINT and SIGHUP in processes that start in this block: Ctrl-C is handled by the parent."""
    resource_tracker.ensure_running()  # the first start would do it, and unblock the signals again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
