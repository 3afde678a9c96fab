"""Tests of the Ray engine on two nodes: `test_ray.py` runs them in a network namespace with loopback alone."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from every_method import assert_same_run

from motet.engines.ray import Ray
from motet.engines.ray_cluster import import_ray
from motet.runs.run import Silent, run
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
