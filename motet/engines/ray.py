"""The engine of actors in a Ray cluster, one thread each; its numbers equal the inline engine's to the bit.

Ray starts nothing again by itself: an actor or a node that dies is noticed here, replaced, and its clients' work is
repeated from the private states of before. `ray_actor.py` is the actors' side, `ray_states.py` keeps private states.
"""

import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from motet.engines.client_states import LIMIT
from motet.engines.dealing import MEMORY, Dealing
from motet.engines.engine import Groups, Work, each_alone
from motet.engines.ray_actor import SMALL, Actor, Order, TensorForm, packed_build, tensor_bytes
from motet.engines.ray_cluster import Cluster
from motet.engines.ray_states import ClusterStates
from motet.engines.several_workers import FALSE_STARTS, SeveralWorkers, Worker, outcome_of, raise_what_is_wrong
from motet.errors import MotetError
from motet.messages.message import State, byte_count, decode, encode
from motet.messages.task import Outcome, Task

LISTEN = 5.0  # seconds to wait for an answer before looking around
UNPLACED = 60.0  # seconds without any worker after which a warning says so


@dataclass
class _Sent:
    """A group of tasks on its way to an actor."""

    waits_for: Any  # reference of the answer
    rest: list[Any]  # references of large replies, then of private states
    sent: list[int]  # bytes of each message


@dataclass
class RayWorker(Worker):
    """The driver's view of one actor, which does one group after the other."""

    actor: Any
    waits_for: Any  # reference of the answer that comes next
    rest: list[Any] = field(default_factory=list)  # references of large replies, then of private states
    second: _Sent | None = None  # what was sent ahead

    def expect(self, sent: _Sent) -> None:
        """Let the answer to this group come next."""
        self.waits_for, self.rest, self.sent = sent.waits_for, sent.rest, sent.sent


class Ray(SeveralWorkers[RayWorker]):
    """An engine of persistent actors. One that dies is replaced, and its group of tasks is repeated."""

    def __init__(
        self,
        build: Callable[[], Work],
        workers: int,
        samples: Mapping[int, int],
        groups: Groups = each_alone,
        folder: Path | None = None,
        address: str = "",
        states: str = "auto",
        gpus: float = 0.0,
    ):
        """Join the cluster at `address`, or start one here; actors start when there is work.

        Without a number of `workers` there is one per CPU of the cluster. `states` says where private states are:
        "driver", "cluster", or "auto" by their size. `gpus` is the share of a GPU that each actor gets.
        """
        self.cluster = Cluster(address, workers)
        self.ray = self.cluster.ray
        super().__init__(workers or self.cluster.cpus, samples, groups, folder)
        most = {"driver": math.inf, "cluster": 0, "auto": LIMIT // max(1, len(samples))}[states]
        self.states: ClusterStates = ClusterStates(self.ray, folder, most)
        self.build = build
        self._packed: list[Any] = []  # references of what actors are built from
        self.remote = self.ray.remote(num_cpus=1, num_gpus=gpus, max_restarts=0, max_task_retries=0)(Actor)
        self.false_starts = 0
        self._alone_since = math.inf  # since when no actor is ready
        self._once = _Once(self.ray)

    def close(self) -> None:
        """End all actors, leave the cluster, and delete temporary files."""
        for worker in list(self.workers):
            self._remove(worker)
        self._packed.clear()
        super().close()
        self.cluster.leave()

    # ------------------------------------------------------------ actors

    def _hire(self) -> None:
        if not self._packed:
            try:
                packed, arrays = packed_build(self.build)
            except Exception as error:  # a method that only the main script defines, among others
                raise MotetError(
                    f"the work cannot be sent to the cluster ({type(error).__name__}: {error}); accepted: "
                    f"engine.name=inline, or methods in files of their own"
                ) from error
            self._packed = [self.ray.put(packed), *map(self.ray.put, arrays)]
        actor = self.remote.remote()
        self.workers.append(RayWorker(actor, actor.start.remote(*self._packed)))
        self._alone_since = min(self._alone_since, time.monotonic())

    def _finish_start(self, worker: RayWorker) -> None:
        try:
            raise_what_is_wrong(self.ray.get(worker.waits_for))
        except self.ray.exceptions.RayError as error:
            self._remove(worker)
            self.false_starts += 1
            if self.false_starts >= FALSE_STARTS:
                raise MotetError(
                    f"no worker can be started in the cluster: {FALSE_STARTS} ended while they started "
                    f"({_first_line(error)}); accepted: nodes with Motet and enough memory, or engine.name=pool"
                ) from error
        else:
            worker.ready = True
            self._alone_since = math.inf

    def _answered_or_dead(self) -> list[RayWorker]:
        waiting = {w.waits_for: w for w in self.workers if w.group is not None or not w.ready}
        if not waiting:
            return []
        first, _ = self.ray.wait(list(waiting), num_returns=1, timeout=LISTEN)
        if not first:
            self._say_if_nobody_works()
            return []
        ready, _ = self.ray.wait(list(waiting), num_returns=len(waiting), timeout=0)
        return [waiting[reference] for reference in ready or first]

    def _say_if_nobody_works(self) -> None:
        if not self._anyone_ready and time.monotonic() - self._alone_since > UNPLACED:
            self._alone_since = math.inf
            free = self.ray.available_resources()
            warnings.warn(
                f"still waiting for a place in the cluster: it has {free.get('CPU', 0):g} free CPUs and "
                f"{free.get('GPU', 0):g} free GPUs",
                RuntimeWarning,
                stacklevel=2,
            )

    def _remove(self, worker: RayWorker) -> None:
        with suppress(Exception):  # it has died, or the cluster has
            self.ray.kill(worker.actor)
        self.workers.remove(worker)

    # ------------------------------------------------------------ work

    def _run(self, tasks: Sequence[Task]) -> Iterator[Outcome]:
        self._once = _Once(self.ray)  # the server may change its tensors before the next run
        return super()._run(tasks)

    def _send(self, worker: RayWorker, tasks: Sequence[Task]) -> None:
        worker.expect(self._sent(worker, tasks))

    def _send_ahead(self, worker: RayWorker, dealing: Dealing) -> bool:
        worker.ahead = dealing.hand_out()
        worker.second = self._sent(worker, dealing.tasks(worker.ahead))
        return True

    def _next_answer(self, worker: RayWorker) -> None:
        assert worker.second is not None
        worker.expect(worker.second)
        worker.second = None

    def _sent(self, worker: RayWorker, tasks: Sequence[Task]) -> _Sent:
        objects: list[Any] = []
        orders, sizes = [], []
        for task in tasks:
            message = task.build_message()
            sizes.append(byte_count(message))
            small: State = {}
            large = {}
            for name, value in message.items():
                if isinstance(value, Tensor) and value.nbytes > SMALL:
                    large[name] = len(objects), TensorForm.of(value)
                    objects.append(self._once.reference(value))
                else:
                    small[name] = value
            private = self.states.argument(task.client_id)
            at = None if private is None else len(objects)
            objects += [] if private is None else [private]
            orders.append(Order((task.kind, task.client_id, task.round), encode(small), large, at))
        perform = worker.actor.perform.options(num_returns=1 + 2 * len(tasks))
        first, *rest = perform.remote(orders, *objects)
        return _Sent(first, rest, sizes)

    def _receive_outcomes(self, worker: RayWorker, tasks: Sequence[Task]) -> list[Outcome] | None:
        replies, privates, worker.rest = worker.rest[: len(tasks)], worker.rest[len(tasks) :], []
        try:
            answer = self.ray.get(worker.waits_for)
            raise_what_is_wrong(answer)
            arrays = self.ray.get([one for one, is_large in zip(replies, answer["large"], strict=True) if is_large])
            fetched = [bool(size) and size <= self.states.most for size in answer["sizes"]]
            states = self.ray.get([one for one, is_fetched in zip(privates, fetched, strict=True) if is_fetched])
        except self.ray.exceptions.RayTaskError as error:
            self._arguments_lost(worker, tasks, error)
            return None
        except self.ray.exceptions.RayError as error:
            worker.cause = _cause(error)
            self._remove(worker)
            return None
        for task, size, is_fetched, reference in zip(tasks, answer["sizes"], fetched, privates, strict=True):
            if size and not is_fetched:
                self.states.put_reference(task.client_id, reference)
            elif size is not None:
                self.states.put(task.client_id, decode(states.pop(0).tobytes()) if size else {})
        large = iter(arrays)
        told = [
            decode(next(large).tobytes()) if is_large else None if small is None else decode(small)
            for small, is_large in zip(answer["small"], answer["large"], strict=True)
        ]
        return list(map(outcome_of, answer["outcomes"], told, worker.sent))

    def _arguments_lost(self, worker: RayWorker, tasks: Sequence[Task], error: Any) -> None:
        """Look for private states that went with a node before a task could take them; raise if none did."""
        if not isinstance(error.cause, self.ray.exceptions.RayError):
            raise RuntimeError(f"in a worker:\n{error}") from error
        worker.cause = _cause(error.cause)
        self.states.find_lost([task.client_id for task in tasks])


class _Once:
    """Puts each tensor of a run's messages into the object store once, however many messages hold it."""

    def __init__(self, ray: Any):
        self.ray = ray
        self._known = WeakTensorKeyDictionary()  # a tensor of one client's message alone is gone with it

    def reference(self, tensor: Tensor) -> Any:
        """Return the reference of a tensor's bytes."""
        if tensor not in self._known:
            self._known[tensor] = self.ray.put(tensor_bytes(tensor))
        return self._known[tensor]


def _cause(error: Exception) -> str:
    """Return in words why an actor died, as far as Ray tells."""
    return MEMORY if "memory" in str(error).lower() else _first_line(error)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
