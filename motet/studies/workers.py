"""Worker processes that run jobs: they exchange lines of JSON with the parent, and end when the parent ends."""

import json
import os
import queue as queues
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from motet.errors import MotetError
from motet.studies.job import Job

_MODULE = "motet.studies.worker"


@dataclass
class _Worker:
    """The parent's view of one process."""

    process: "subprocess.Popen[str]"
    at: tuple[Any, Job] | None = None  # the key of a workflow, and its job


class Workers:
    """Up to `most` processes, each started when there is a job for it."""

    def __init__(self, most: int):
        self.most = most
        self.workers: list[_Worker] = []
        self.heard: queues.Queue[tuple[_Worker, dict[str, Any] | None]] = queues.Queue()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self.workers:
            worker.process.kill() if worker.at else worker.process.terminate()
        for worker in self.workers:
            worker.process.wait()

    def work_off(
        self, queue: deque[tuple[Any, Job]], progress: Any, ended: Callable[[Any, Job, str | None], None]
    ) -> None:
        """Run jobs until the queue is empty and none is running; jobs that end may put others into the queue."""
        while queue or any(worker.at for worker in self.workers):
            self._hand_out(queue, progress)
            worker, word = self.heard.get()
            if word is None:
                self._lost(worker)
            elif worker.at and word["word"] == "round":
                progress.round(worker.at[1], word["round"])
            elif worker.at:
                (name, job), worker.at = worker.at, None
                ended(name, job, word["why"])

    def _hand_out(self, queue: deque[tuple[Any, Job]], progress: Any) -> None:
        while queue:
            idle = next((worker for worker in self.workers if worker.at is None), None)
            if idle is None and len(self.workers) >= self.most:
                return
            worker = idle or self._hire()
            worker.at = queue.popleft()
            job = worker.at[1]
            progress.began(job)
            asked = {
                "label": job.label,
                "folder": str(job.folder),
                "experiment": job.experiment.model_dump(),
                "until": job.until,
            }
            assert worker.process.stdin is not None
            try:
                worker.process.stdin.write(json.dumps(asked) + "\n")
                worker.process.stdin.flush()
            except OSError:
                self._lost(worker)

    def _hire(self) -> _Worker:
        paths = os.pathsep.join(path for path in sys.path if path)
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", _MODULE],  # -P: import nothing from the current folder, which may be foreign
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        )
        worker = _Worker(process)
        self.workers.append(worker)
        threading.Thread(target=self._listen, args=(worker,), daemon=True).start()
        return worker

    def _listen(self, worker: _Worker) -> None:
        assert worker.process.stdout is not None
        for line in worker.process.stdout:
            self.heard.put((worker, json.loads(line)))
        self.heard.put((worker, None))

    def _lost(self, worker: _Worker) -> None:
        code = worker.process.wait()
        label = worker.at[1].label if worker.at else "nothing"
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        raise MotetError(
            f"the process that computed {label} ended ({how}); start the same command again to go on, with fewer "
            f"--jobs if memory ran out"
        )
