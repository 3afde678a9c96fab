"""Tests of the Ray engine on two nodes: `test_ray.py` runs them in a network namespace with loopback alone."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from every_method import assert_same_run
from rich.console import Console

import motet
from motet.api.studies import bench_file
from motet.engines import OneByOne
from motet.engines.ray import Ray
from motet.engines.ray_cluster import import_ray
from motet.messages.message import State
from motet.messages.task import Outcome, Task
from motet.report.progress import StudyProgress
from motet.runs.record import Record
from motet.runs.run import Silent, run
from motet.studies.job import Job
from motet.testing.twin import tiny

LARGE = {"net": {"name": "mlp(hidden=512x256)"}}  # states that Ray does not send along with answers


class KillsANode(Silent):
    """Kills a node after its third round, in which all workers worked, and remembers what was said."""

    def __init__(self, kill: Callable[[], None], all_started: Callable[[], object]):
        self.kill, self.all_started = kill, all_started
        self.said: list[str] = []

    def started(self, experiment: Any, folder: Path, round: int, warning: str | None) -> None:
        self.said.append(f"{round}: {warning or ''}")

    def round(self, row: Any) -> None:
        if row["round"] == 1 and len(self.said) == 1:
            self.all_started()
        if row["round"] == 3 and len(self.said) == 1:
            self.kill()


@pytest.fixture
def nodes() -> Iterator[Any]:
    """Two nodes with a CPU each; the second can be killed."""
    import_ray()  # before anything of Ray, so that it sends no statistics
    from ray.cluster_utils import Cluster

    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    nodes.second = nodes.add_node(num_cpus=1)
    yield nodes
    nodes.shutdown()


@pytest.mark.parametrize(
    ("states", "every", "goes_back_to"), [("driver", 2, None), ("cluster", 2, 2), ("cluster", 9, 0)]
)
def test_a_node_that_dies_changes_no_byte(
    states: str,
    every: int,
    goes_back_to: int | None,
    nodes: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With private states on the node, the run goes back to its newest checkpoint by itself, and says so."""
    asked = LARGE | {"rounds": {"count": 5, "cohort": 1.0}, "checkpoint": {"every": every}}
    run(tiny("scaffold", **asked), tmp_path / "inline")
    starts: list[Any] = []
    hire = Ray._hire

    def remember(self: Ray) -> None:
        hire(self)
        starts[:] = [*starts[-1:], self.workers[-1].waits_for]

    monkeypatch.setattr(Ray, "_hire", remember)
    ray = import_ray()
    watcher = KillsANode(lambda: nodes.remove_node(nodes.second, allow_graceful=False), lambda: ray.get(starts[:2]))
    engine = {"name": "ray", "workers": 2, "states": states, "ray_address": nodes.address}
    run(tiny("scaffold", **asked, engine=engine), tmp_path / "ray", watcher)
    assert_same_run(tmp_path / "ray", tmp_path / "inline")
    if goes_back_to is None:
        assert len(watcher.said) == 1
    else:
        where = f"round {goes_back_to}" if goes_back_to else "its beginning"
        assert watcher.said[1].startswith(f"{goes_back_to}: the private state of client ")
        assert watcher.said[1].endswith(f"the run went back to {where}")


BENCH = """
name = "small"
figures = ["generic.accuracy", "personal.weighted.accuracy.mean"]
seeds = [0, 1, 2]
[setting]
clients = 5
rounds = 3
epochs = 1
[grid]
method = ["fedavg", "scaffold", "ditto", "fedrod"]
"""


def test_twelve_runs_over_two_nodes_give_the_table_of_one_machine(nodes: Any, tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text(BENCH)
    here = motet.bench(tmp_path / "grid.toml", jobs=1, out=tmp_path / "here")
    killed: list[int] = []

    class KillsAWorker(StudyProgress):
        """Kills the process of a run once, right after its first round."""

        def round(self, job: Job, round: int) -> None:
            if not killed:
                killed.append(process_that_holds(job.folder / "lock"))
                os.kill(killed[0], signal.SIGKILL)
            super().round(job, round)

    console = Console(stderr=True, quiet=True)
    engine = {"name": "ray", "ray_address": nodes.address}
    folder, _ = bench_file(
        *(tmp_path / "grid.toml", 0, False, tmp_path / "there", None),
        lambda total: KillsAWorker(console, total),
        engine=engine,
    )
    assert killed
    assert (folder / "table.csv").read_bytes() == (tmp_path / "here" / "table.csv").read_bytes()
    assert len(here) == 8 and len(list((folder / "runs").iterdir())) == 12
    for run_folder in (folder / "runs").iterdir():
        assert_same_run(run_folder, tmp_path / "here" / "runs" / run_folder.name)


def test_one_run_at_a_time_is_computed_by_all_workers(nodes: Any, tmp_path: Path) -> None:
    file = tmp_path / "grid.toml"
    file.write_text(BENCH.replace('["fedavg", "scaffold", "ditto", "fedrod"]', '["scaffold"]'))
    motet.bench(file, jobs=1, quick=True, out=tmp_path / "here")
    motet.bench(file, jobs=1, quick=True, out=tmp_path / "there", engine="ray", workers=2, ray_address=nodes.address)
    (made,) = (tmp_path / "there" / "runs").iterdir()
    assert Record(made).experiment.engine.name == "ray"
    assert_same_run(made, tmp_path / "here" / "runs" / made.name)


def visible(task: Task, private: State) -> Outcome:
    """Tell which GPU this process sees, and which process it is."""
    return task.answered({"gpu": int(os.environ["CUDA_VISIBLE_DEVICES"]), "process": os.getpid()})


def build_visible() -> OneByOne:
    return OneByOne(visible)


def test_workers_share_a_gpu_as_they_are_told(nodes: Any) -> None:
    """Ray is told that a node has two GPUs; two workers get half of one each, and only where there are such."""
    nodes.add_node(num_cpus=4, num_gpus=2)
    engine = Ray(build_visible, 3, {}, address=nodes.address, gpus=0.5)
    try:
        seen: dict[int, int] = {}
        late, round = time.monotonic() + 120, 0  # on a busy machine a worker takes long to start
        while len(seen) < 3 and time.monotonic() < late:
            round += 1
            for outcome in engine.run([Task("score", i, round, {}) for i in range(6)]):
                assert outcome.reply is not None
                seen[int(outcome.reply["process"])] = int(outcome.reply["gpu"])
        assert sorted(seen.values()) in ([0, 0, 1], [0, 1, 1])
    finally:
        engine.close()


def process_that_holds(lock: Path) -> int:
    """The process that has a file open."""
    inode = str(lock.stat().st_ino)
    for line in Path("/proc/locks").read_text().splitlines():
        words = line.split()
        if words[5].split(":")[-1] == inode:
            return int(words[4])
    raise AssertionError(f"nobody holds {lock}")
