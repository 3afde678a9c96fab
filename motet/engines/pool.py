"""Worker processes on one machine, one thread each; the numbers are the inline engine's to the bit."""

import json
import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

import torch.multiprocessing  # noqa: F401  teaches processes to hand tensors over in shared memory

from motet.engines.engine import Engine, Outcome, Perform, Task
from motet.engines.shared_box import InBox, OutBox
from motet.engines.store import PrivateStore
from motet.engines.worker import STOP, work
from motet.errors import MotetError
from motet.message import State, decode, encode

TRIES = 3  # how often the work of one client may cost a worker its life
# Read by the C library when a worker starts: activations stay in the process instead of going back to the system and
# being faulted in again at every step.
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "1000000000", "MALLOC_TRIM_THRESHOLD_": "4000000000", "OMP_NUM_THREADS": "1"}


@dataclass
class Worker:
    """The parent's view of one worker process."""

    process: SpawnProcess
    connection: Connection
    outbox: OutBox = field(default_factory=OutBox)
    inbox: InBox = field(default_factory=InBox)
    task: int | None = None  # which of the tasks it works on

    def end(self) -> None:
        """Stop at once."""
        self.process.terminate()
        self.process.join()
        self.connection.close()
        self.outbox.close()
        self.inbox.close()


class Pool(Engine):
    """Persistent workers, started at the first task. A worker that dies is replaced and its client's work repeated."""

    def __init__(self, build: Callable[[], Perform], workers: int, samples: Mapping[int, int]):
        """`build` makes a workplace in a new process; `samples` tells which clients take long."""
        self.build, self.size, self.samples = build, workers, samples
        self.store = PrivateStore()
        self.workers: list[Worker] = []

    def run(self, tasks: Sequence[Task]) -> list[Outcome]:
        waiting = sorted(range(len(tasks)), key=lambda i: self.samples.get(tasks[i].client_id, 0))  # longest last
        outcomes: dict[int, Outcome] = {}
        tries = [0] * len(tasks)
        self._staff(len(tasks))
        while len(outcomes) < len(tasks):
            for worker in self.workers:
                if worker.task is None and waiting:
                    worker.task = waiting.pop()
                    tries[worker.task] += 1
                    self._hand_out(worker, tasks[worker.task])
            for worker in self._heard_of():
                done, worker.task = worker.task, None
                if done is None:
                    continue
                outcome = self._take_in(worker, tasks[done])
                if outcome is not None:
                    outcomes[done] = outcome
                elif tries[done] < TRIES:
                    waiting.append(done)
                else:
                    raise MotetError(
                        f"the work of client {tasks[done].client_id} ended its process {TRIES} times; "
                        f"accepted: a client whose work fits in memory (try engine.name=inline to see why)"
                    )
        return [outcomes[i] for i in range(len(tasks))]

    def private(self, client_id: int) -> State:
        return self.store.get(client_id)

    def restore(self, client_id: int, state: State) -> None:
        self.store.put(client_id, state)

    def close(self) -> None:
        """Idle workers leave by themselves, busy ones are ended."""
        for worker in self.workers:
            if worker.task is None and worker.process.is_alive():
                worker.connection.send_bytes(STOP)
                worker.process.join(timeout=5)
            worker.end()
        self.workers.clear()
        self.store.close()

    # ------------------------------------------------------------ workers

    def _staff(self, tasks: int) -> None:
        while len(self.workers) < min(self.size, tasks):
            self.workers.append(self._hire())

    def _hire(self) -> Worker:
        context = multiprocessing.get_context("spawn")  # forked workers hang once torch has used its threads
        here, there = context.Pipe()
        process = context.Process(target=work, args=(there, self.build), daemon=True, name="motet-worker")
        with _environment(KEEP_MEMORY):
            process.start()
        there.close()
        return Worker(process, here)

    def _hand_out(self, worker: Worker, task: Task) -> None:
        message, private = encode(task.message), encode(self.store.get(task.client_id))
        order = {
            "kind": task.kind,
            "client": task.client_id,
            "round": task.round,
            "box": worker.outbox.write(message, private),
            "sizes": [len(message), len(private)],
        }
        with suppress(OSError):  # it died since; `_take_in` will find out
            worker.connection.send_bytes(json.dumps(order).encode())

    def _heard_of(self) -> list[Worker]:
        """Workers that answered or died."""
        ready = set(wait([w.connection for w in self.workers if w.task is not None]))
        return [w for w in self.workers if w.connection in ready]

    def _take_in(self, worker: Worker, task: Task) -> Outcome | None:
        """The outcome of a task, its private state kept; None if the worker died, which is then replaced."""
        try:
            answer = json.loads(worker.connection.recv_bytes())
        except (EOFError, OSError):
            worker.end()
            self.workers[self.workers.index(worker)] = self._hire()
            return None
        if answer["mistake"]:
            raise MotetError(answer["mistake"])
        if answer["bug"]:
            raise RuntimeError(f"in a worker process:\n{answer['bug']}")
        if answer["box"]:
            worker.inbox.open(answer["box"])
        sizes = [size for size in answer["sizes"] if size is not None]
        pieces = iter(worker.inbox.read(*sizes) if sizes else [])
        reply, private = (None if size is None else decode(next(pieces)) for size in answer["sizes"])
        if private is not None:
            self.store.put(task.client_id, private)
        return Outcome(task.client_id, reply, private, answer["failure"])


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
