"""Tests of the Ray engine that start Ray: `test_ray.py` runs them in a network namespace with loopback alone."""

import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest
import torch
from every_method import assert_same_as_inline, assert_same_run, build

from motet.engines import OneByOne
from motet.engines.ray import Ray
from motet.engines.ray_cluster import Cluster
from motet.engines.ray_states import ClusterStates
from motet.errors import MotetError
from motet.messages.message import State
from motet.messages.task import Outcome, Task
from motet.runs.run import run
from motet.testing.twin import ALONE, NEED_ANOTHER_NET, NEED_MORE_CLIENTS, tiny

SIX = ("fedavg", "scaffold", "ditto", "fedrod", "pgfed", "dbe")
WORKERS = 2


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Ray, started once for all tests."""
    cluster = Cluster(workers=3 * WORKERS)  # of the engines that stay, and of one more
    yield cluster
    cluster.leave()


@pytest.fixture(scope="session")
def all_methods(cluster: Cluster) -> Iterator[Ray]:
    engine = Ray(build(), WORKERS, {})
    yield engine
    engine.close()


WITH_THE_DRIVER, IN_THE_CLUSTER = float("inf"), 0.0  # bytes of private states that the driver keeps
OTHER = {WITH_THE_DRIVER: IN_THE_CLUSTER, IN_THE_CLUSTER: WITH_THE_DRIVER}
PLACES = {name: (WITH_THE_DRIVER, IN_THE_CLUSTER)[at % 2] for at, name in enumerate(SIX)}


@pytest.mark.parametrize(
    ("name", "most"),
    [
        *PLACES.items(),
        *(pytest.param(n, OTHER[m], marks=pytest.mark.slow) for n, m in PLACES.items()),
    ],
)
def test_the_same_bytes_as_inline(name: str, most: float, all_methods: Ray) -> None:
    assert_same_as_inline(all_methods, ALONE.index(name), ClusterStates(all_methods.ray, None, most))
    assert len(all_methods.workers) == WORKERS


def test_workers_are_served_by_the_processor_as_the_driver_is(all_methods: Ray) -> None:
    """As the pool's are; Ray's own choice lets every other program of the machine go first."""
    there = [p for p in psutil.Process().children(recursive=True) if p.name().startswith("ray::Actor")]
    assert {worker.nice() for worker in there} == {psutil.Process().nice()}


@pytest.mark.slow
@pytest.mark.parametrize("most", [WITH_THE_DRIVER, IN_THE_CLUSTER])
@pytest.mark.parametrize("number", [i for i, name in enumerate(ALONE) if name not in SIX])
def test_every_other_method_has_the_same_bytes(number: int, most: float, all_methods: Ray) -> None:
    assert_same_as_inline(all_methods, number, ClusterStates(all_methods.ray, None, most))


NET = f"{Path(__file__).parent / 'batchnorm_net.py'}:build"
IN_ANOTHER_SETTING: dict[str, dict[str, dict[str, object]]] = {  # the names that the tiny one does not suit
    **{name: {"data": {"clients": 8}, "rounds": {"count": 3, "cohort": 1.0}} for name in sorted(NEED_MORE_CLIENTS)},
    **{name: {"net": {"name": NET}} for name in sorted(NEED_ANOTHER_NET)},
}


@pytest.mark.slow
@pytest.mark.parametrize("states", ["driver", "cluster"])
@pytest.mark.parametrize("name", IN_ANOTHER_SETTING)
def test_methods_that_need_another_setting_have_the_same_bytes(
    name: str, states: str, cluster: Cluster, tmp_path: Path
) -> None:
    asked = IN_ANOTHER_SETTING[name]
    run(tiny(name, **asked), tmp_path / "inline")
    run(tiny(name, **asked, engine={"name": "ray", "workers": WORKERS, "states": states}), tmp_path / "ray")
    assert_same_run(tmp_path / "ray", tmp_path / "inline")


@pytest.mark.slow
def test_partial_sums_have_the_bits_that_they_have_in_one_process(cluster: Cluster, tmp_path: Path) -> None:
    asked = {"data": {"clients": 8}, "rounds": {"count": 3, "cohort": 1.0}}
    run(tiny("scaffold", **asked, engine={"name": "inline", "partial_sums": 3}), tmp_path / "inline")
    run(tiny("scaffold", **asked, engine={"name": "ray", "workers": WORKERS, "partial_sums": 3}), tmp_path / "ray")
    assert_same_run(tmp_path / "ray", tmp_path / "inline")


def test_signals_are_handled_as_before(cluster: Cluster) -> None:
    """Ray has a handler of its own for SIGTERM, which would end a run without a word on how to go on."""
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    assert signal.getsignal(signal.SIGINT) == signal.default_int_handler


def test_every_port_is_on_loopback_and_nothing_is_told_to_anybody(cluster: Cluster) -> None:
    """The namespace has no other processes than these; whoever reaches a port of Ray runs code."""
    lines = [
        line.split() for kind in ("tcp", "tcp6") for line in Path(f"/proc/net/{kind}").read_text().splitlines()[1:]
    ]
    listening = [words[1].rsplit(":", 1)[0] for words in lines if words[3] == "0A"]
    assert len(listening) > 2
    assert set(listening) <= {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    assert os.environ["RAY_AUTH_MODE"] == "token" and len(os.environ["RAY_AUTH_TOKEN"]) >= 32


def test_a_whole_run_leaves_the_record_of_an_inline_run(cluster: Cluster, tmp_path: Path) -> None:
    run(tiny("scaffold"), tmp_path / "inline")
    run(tiny("scaffold", engine={"name": "ray", "workers": WORKERS}), tmp_path / "ray")
    assert_same_run(tmp_path / "ray", tmp_path / "inline")


@pytest.mark.slow
def test_workers_may_read_the_samples_themselves(cluster: Cluster, tmp_path: Path) -> None:
    run(tiny("scaffold"), tmp_path / "inline")
    run(tiny("scaffold", engine={"name": "ray", "workers": WORKERS, "data": "path"}), tmp_path / "ray")
    assert_same_run(tmp_path / "ray", tmp_path / "inline")


# ---------------------------------------------------------------- deaths


DIES = "dies"
MANY = 12  # so many that workers are sent a second group while they work on one


def dies_where_it_is_told(stamp: Path, task: Task, private: State) -> Outcome:
    """Work that ends its process: always, or unless a file is there that says it did so already."""
    wish = task.build_message()[DIES]
    if wish == 2 or (wish == 1 and not stamp.exists()):
        stamp.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    seen = int(private.get("seen", 0)) + 1
    return task.answered({"x": torch.full((30_000,), float(seen))}, {"seen": seen, "large": torch.ones(50_000)})


def build_dying(stamp: Path) -> OneByOne:
    return OneByOne(partial(dies_where_it_is_told, stamp))


@pytest.fixture(scope="session")
def stamp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stamp") / "died"


@pytest.fixture(scope="session")
def dying(cluster: Cluster, stamp: Path) -> Iterator[Ray]:
    engine = Ray(partial(build_dying, stamp), WORKERS, dict.fromkeys(range(MANY), 1), states="cluster")
    yield engine
    engine.close()


@pytest.mark.slow
def test_a_worker_that_dies_is_replaced_and_its_work_repeated(dying: Ray, stamp: Path) -> None:
    for times in (1, 2):
        outcomes = list(dying.run([Task("train", i, times, {DIES: int(i == 2)}) for i in range(MANY)]))
        assert [float(o.reply["x"][0]) for o in outcomes if o.reply] == [float(times)] * MANY  # type: ignore[index]
        assert [dying.private(i)["seen"] for i in range(MANY)] == [times] * MANY
    assert stamp.exists()  # it did die
    entries = dying.keep(2)
    dying.kept(2)
    list(dying.run([Task("train", 1, 3, {DIES: 0})]))
    dying.go_back(2, entries)
    assert [dying.private(i)["seen"] for i in range(MANY)] == [2] * MANY
    assert float(next(iter(dying.run([Task("train", 1, 3, {DIES: 0})]))).reply["x"][0]) == 3.0  # type: ignore[index]


@pytest.mark.slow
def test_a_client_that_always_kills_its_worker_is_named_with_the_likely_cause(dying: Ray) -> None:
    with pytest.raises(MotetError, match=r"client 3 ended its process 3 times \(killed, .* when memory is short\)"):
        list(dying.run([Task("train", i, 1, {DIES: 2 * int(i == 3)}) for i in range(MANY)]))
