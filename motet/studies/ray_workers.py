"""Runs of a study side by side in a Ray cluster: an actor per run, which reports rounds as they end.

Every run is written where the study is, so that its folder must be on a path that all nodes share. A run whose worker
died goes on from its newest checkpoint with another.
"""

import queue as queues
import secrets
import threading
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from motet.data.built_once import built_once
from motet.engines.dealing import TRIES
from motet.engines.ray_cluster import Cluster
from motet.errors import MotetError
from motet.studies.job import Job, asked_of, attempt, job_of


class JobActor:
    """Computes one job after the other, in a thread of its own so that its rounds can be asked for meanwhile."""

    def __init__(self) -> None:
        self.asked: queues.Queue[dict[str, Any]] = queues.Queue()
        self.words: queues.Queue[dict[str, Any]] = queues.Queue()
        threading.Thread(target=self._work, daemon=True).start()

    def begin(self, asked: dict[str, Any], witness: str) -> bool:
        """Begin a job; return False if the node does not see the file `witness`, which is beside the job's folder."""
        if not Path(witness).is_file():
            return False
        self.asked.put(asked)
        return True

    def next_word(self) -> dict[str, Any]:
        """Wait for the end of a round or of the job, and return it as `studies/worker.py` says it."""
        return self.words.get()

    def _work(self) -> None:
        with built_once():  # all jobs of this process share the data
            while True:
                failure = attempt(job_of(self.asked.get()), self._round)
                self.words.put({"word": "ended", "why": failure})

    def _round(self, round: int) -> None:
        self.words.put({"word": "round", "round": round})


@dataclass
class _BusyActor:
    """The driver's view of one actor and its job."""

    actor: Any
    at: tuple[Any, Job]
    waits_for: Any  # reference of its next answer
    begun: bool = False


class RayWorkers:
    """Up to `most` actors of a cluster, each started when there is a job for it."""

    def __init__(self, most: int, cluster: Cluster):
        self.most, self.ray = most, cluster.ray
        self.remote = self.ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(JobActor)
        self.busy: list[_BusyActor] = []
        self.idle: list[Any] = []
        self.deaths: Counter[str] = Counter()  # by the label of a job

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for actor in [*self.idle, *(worker.actor for worker in self.busy)]:
            with suppress(Exception):  # it has died
                self.ray.kill(actor)

    def work_off(
        self, queue: deque[tuple[Any, Job]], progress: Any, ended: Callable[[Any, Job, str | None], None]
    ) -> None:
        """Run jobs until the queue is empty and none is running; jobs that end may put others into the queue."""
        with _Witness() as witness:
            while queue or self.busy:
                while queue and len(self.busy) < self.most:
                    self._hand_out(queue.popleft(), witness, progress)
                ready, _ = self.ray.wait([worker.waits_for for worker in self.busy], num_returns=1)
                worker = next(w for w in self.busy if w.waits_for in ready)
                try:
                    word = self.ray.get(worker.waits_for)
                except self.ray.exceptions.RayError as error:
                    self._lost(worker, queue, error)
                    continue
                self._heard(worker, word, progress, ended)

    def _hand_out(self, at: tuple[Any, Job], witness: "_Witness", progress: Any) -> None:
        actor = self.idle.pop() if self.idle else self.remote.remote()
        job = at[1]
        progress.began(job)
        self.busy.append(_BusyActor(actor, at, actor.begin.remote(asked_of(job), witness.beside(job.folder))))

    def _heard(
        self, worker: _BusyActor, word: Any, progress: Any, ended: Callable[[Any, Job, str | None], None]
    ) -> None:
        name, job = worker.at
        if not worker.begun:
            if not word:
                raise MotetError(
                    f"{job.folder.parent} is not there on a node of the cluster; accepted: an --out on a path that all "
                    f"nodes share"
                )
            worker.begun = True
        elif word["word"] == "round":
            progress.round(job, word["round"])
        else:
            self.busy.remove(worker)
            self.idle.append(worker.actor)
            ended(name, job, word["why"])
            return
        worker.waits_for = worker.actor.next_word.remote()

    def _lost(self, worker: _BusyActor, queue: deque[tuple[Any, Job]], error: Exception) -> None:
        """Put the job of a dead actor back; raise after too many died on it."""
        self.busy.remove(worker)
        label = worker.at[1].label
        self.deaths[label] += 1
        if self.deaths[label] >= TRIES:
            why = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise MotetError(
                f"the process that computed {label} ended {TRIES} times ({why}); start the same command again to go "
                f"on, with fewer --jobs if memory ran out"
            ) from error
        queue.appendleft(worker.at)


class _Witness:
    """Files beside the folders of jobs, by which a node tells whether it sees the same folder as the driver."""

    def __init__(self) -> None:
        self.name = f".motet-{secrets.token_hex(8)}"
        self.folders: set[Path] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for folder in self.folders:
            with suppress(OSError):
                (folder / self.name).unlink()

    def beside(self, job: Path) -> str:
        """Return the full name of the file beside this folder of a job, which it makes if it is not there."""
        folder = job.absolute().parent
        if folder not in self.folders:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / self.name).touch()
            self.folders.add(folder)
        return str(folder / self.name)
