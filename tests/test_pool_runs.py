"""Whole runs in the pool: the inline engine's bits for every method, whoever is killed meanwhile."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from every_method import assert_same_as_inline, build

from motet.config.experiment import write
from motet.config.sections import EngineSettings
from motet.data.federation import SharedFederation
from motet.engines import ClientStates, Engine, Inline, Pool
from motet.messages.task import Task
from motet.methods import METHODS
from motet.methods.base import MethodEntry, Training
from motet.methods.scaffold import Scaffold
from motet.runs.record import Record
from motet.runs.run import resume, run
from motet.server.assembly import assemble
from motet.testing.twin import ALONE, last_states, tiny

WORKERS = 2
POOL = {"name": "pool", "workers": WORKERS}


# ---------------------------------------------------------------- the same bits, for every method


@pytest.fixture(scope="module")
def pool_of_all() -> Iterator[Pool]:
    pool = Pool(build(), WORKERS, {})
    yield pool
    pool.close()


@pytest.mark.parametrize("number", range(len(ALONE)), ids=ALONE)
def test_the_same_bits_as_inline(number: int, pool_of_all: Pool) -> None:
    assert_same_as_inline(pool_of_all, number, ClientStates())


def test_groups_of_clients_are_the_same_everywhere(tmp_path: Path) -> None:
    asked = {"data": {"clients": 12, "new_clients": 0.0}, "rounds": {"cohort": 1.0}, "local": {"batched_clients": True}}
    experiment = tiny("fedavg", **asked)
    assembly = assemble(experiment)
    tasks = [Task("train", i, 1, {}) for i in assembly.client_ids]
    assert sorted(map(len, assembly.engine.groups(tasks))) == [3, 3, 3, 3]
    found = []
    for name in ("inline", "pool"):
        engine = {"name": name, "workers": WORKERS}
        record = Record(run(tiny("fedavg", **asked, engine=engine), tmp_path / name))
        rows = [{k: v for k, v in row.items() if not k.endswith("seconds")} for row in record.rounds]
        found.append((rows, record.clients, (record.folder / "weights.safetensors").read_bytes()))
    assert found[0] == found[1]


# ---------------------------------------------------------------- the federation, shared


def test_a_shared_federation_is_the_same_federation() -> None:
    data = {"clients": 6, "partition": "shards:3", "new_clients": 0.4, "val_share": 0.3}
    federation = assemble(tiny("fedavg", data=data)).federation
    again = SharedFederation.of(federation).cut()
    assert again.training_ids == federation.training_ids and again.new_ids == federation.new_ids
    for there, here in zip(federation.clients, again.clients, strict=True):
        assert (there.id, there.domain, there.new) == (here.id, here.domain, here.new)
        for split in ("train", "val", "test"):
            one, other = getattr(there, split), getattr(here, split)
            assert (one.x.data_ptr(), one.x.shape) == (other.x.data_ptr(), other.x.shape)
            assert (one.y.data_ptr(), one.y.shape) == (other.y.data_ptr(), other.y.shape)


# ---------------------------------------------------------------- which engine


@pytest.mark.parametrize(
    ("asked", "cores", "engine", "meanwhile"),
    [
        ({"name": "auto"}, 1, Inline, False),
        ({"name": "auto"}, 2, Pool, True),
        ({"name": "auto", "workers": 1}, 2, Inline, False),
        ({"name": "inline"}, 2, Inline, False),
        ({"name": "pool"}, 1, Pool, False),
    ],
)
def test_the_engine_is_the_one_asked_for(
    asked: dict[str, object], cores: int, engine: type[Engine], meanwhile: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("motet.engines.registry.cores", lambda: cores)
    found = assemble(tiny("fedavg", engine=asked)).engine
    assert type(found) is engine
    assert not isinstance(found, Pool) or (found.size, found.meanwhile is not None) == (
        asked.get("workers", cores),
        meanwhile,
    )


# ---------------------------------------------------------------- killed, stopped


def timeless(folder: Path) -> list[dict[str, object]]:
    return [{k: v for k, v in row.items() if "seconds" not in k} for row in Record(folder).rounds]


def assert_same_run(folder: Path, other: Path) -> None:
    assert timeless(folder) == timeless(other)
    for name in ("weights.safetensors", "clients.jsonl"):
        assert (folder / name).read_bytes() == (other / name).read_bytes()
    assert last_states(folder) == last_states(other)


class Doubled(Scaffold):
    """A method that the caller of a run adds: SCAFFOLD with twice the gradient."""

    def correct(self, t: Training) -> None:
        """Seen in every number if a worker knows it."""
        super().correct(t)
        t.g.mul_(2)


def test_a_run_whose_worker_is_killed_ends_with_the_same_bits_also_with_an_own_method(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METHODS, "doubled", MethodEntry("doubled", "", "", part=Doubled))
    run(tiny("doubled"), tmp_path / "inline")
    hired: list[int] = []
    hire = Pool._hire

    def remember(self: Pool) -> None:
        hire(self)
        hired.append(self.workers[-1].process.pid or 0)

    monkeypatch.setattr(Pool, "_hire", remember)

    def kill_the_first_when_it_works() -> None:
        while not (tmp_path / "pool" / "rounds.jsonl").exists():
            time.sleep(0.01)
        os.kill(hired[0], signal.SIGKILL)

    killer = threading.Thread(target=kill_the_first_when_it_works)
    killer.start()
    run(tiny("doubled", engine=POOL), tmp_path / "pool")
    killer.join()
    assert len(hired) == WORKERS + 1
    assert_same_run(tmp_path / "pool", tmp_path / "inline")


def started(folder: Path) -> tuple["subprocess.Popen[str]", list[int]]:
    """A run in the pool in the middle of its rounds, as a terminal would start it, and its processes."""
    words = ["run", "--method", "scaffold", "--clients", "6", "--rounds", "60", "--epochs", "1", "--out", str(folder)]
    settings = ["--set", "engine.name=pool", "--set", f"engine.workers={WORKERS}"]
    # A test run in the background may have been started with Ctrl-C ignored, which its children would inherit.
    process = subprocess.Popen(
        [sys.executable, "-m", "motet", *words, *settings],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    rounds = folder / "rounds.jsonl"
    while not (rounds.exists() and rounds.read_bytes().count(b"\n") >= 2):
        assert process.poll() is None
        time.sleep(0.01)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert len(children) >= WORKERS
    return process, [int(pid) for pid in children]


def end_by_themselves(pids: list[int]) -> bool:
    until = time.monotonic() + 60
    while left := [pid for pid in pids if Path(f"/proc/{pid}").exists()]:
        if time.monotonic() > until:
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            return False
        time.sleep(0.05)
    return True


@pytest.mark.slow
def test_ctrl_c_leaves_a_run_to_resume_and_no_process(tmp_path: Path) -> None:
    process, children = started(tmp_path / "run")
    os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does: to every process of the terminal
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.splitlines()[-1] == f"stopped; continue with `motet resume {tmp_path / 'run'}`"
    assert "Traceback" not in err
    assert end_by_themselves(children)
    record = Record(tmp_path / "run")
    assert not record.finished
    elsewhere = record.experiment.model_copy(update={"engine": EngineSettings.model_validate({"name": "inline"})})
    write(elsewhere, record.folder / "experiment.toml")  # the engine is no part of what an experiment is
    resume(record.folder)
    assert_same_run(record.folder, run(elsewhere, tmp_path / "whole"))


@pytest.mark.slow
def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    process, children = started(tmp_path / "run")
    process.kill()
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert end_by_themselves(children)
