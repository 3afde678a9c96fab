"""Tests of the Ray engine that start Ray: `test_ray.py` runs them in a network namespace with loopback alone."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from every_method import assert_same_as_inline, build

from motet.engines.ray import Ray
from motet.engines.ray_cluster import Cluster
from motet.engines.ray_states import ClusterStates
from motet.runs.record import Record
from motet.runs.run import run
from motet.testing.twin import ALONE, last_states, tiny

SIX = ("fedavg", "scaffold", "ditto", "fedrod", "pgfed", "dbe")
WORKERS = 2


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Ray, started once for all tests."""
    cluster = Cluster(workers=2 * WORKERS)  # those of the engine of all methods, and of one more
    yield cluster
    cluster.leave()


@pytest.fixture(scope="session")
def all_methods(cluster: Cluster) -> Iterator[Ray]:
    engine = Ray(build(), WORKERS, {})
    yield engine
    engine.close()


@pytest.mark.parametrize("most", [float("inf"), 0], ids=["driver", "cluster"])
@pytest.mark.parametrize("name", SIX)
def test_the_same_bytes_as_inline(name: str, most: float, all_methods: Ray) -> None:
    assert_same_as_inline(all_methods, ALONE.index(name), ClusterStates(all_methods.ray, None, most))
    assert len(all_methods.workers) == WORKERS


@pytest.mark.slow
@pytest.mark.parametrize("number", [i for i, name in enumerate(ALONE) if name not in SIX])
def test_every_other_method_has_the_same_bytes(number: int, all_methods: Ray) -> None:
    assert_same_as_inline(all_methods, number, ClusterStates(all_methods.ray, None, 0))


def assert_same_run(folder: Path, other: Path) -> None:
    rows = [[{k: v for k, v in row.items() if "seconds" not in k} for row in Record(f).rounds] for f in (folder, other)]
    assert rows[0] == rows[1]
    for name in ("weights.safetensors", "clients.jsonl"):
        assert (folder / name).read_bytes() == (other / name).read_bytes()
    assert last_states(folder) == last_states(other)


def test_a_whole_run_leaves_the_record_of_an_inline_run(cluster: Cluster, tmp_path: Path) -> None:
    run(tiny("scaffold"), tmp_path / "inline")
    run(tiny("scaffold", engine={"name": "ray", "workers": WORKERS}), tmp_path / "ray")
    assert_same_run(tmp_path / "ray", tmp_path / "inline")
