"""The pool engine: the inline engine's bits, from worker processes that may die."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from strict_engine import ALONE, tiny

from motet.engines import Inline, Outcome, Pool, PrivateStore, Task
from motet.errors import MotetError
from motet.message import State
from motet.runs.record import Record
from motet.runs.run import run

WORKERS = 2


def double(task: Task, private: State) -> Outcome:
    """Answers twice the number, counts its calls, and does what the message asks for."""
    wish = int(task.message["wish"])
    if wish == 1 and task.client_id == 1 and not _mark(task):
        os.kill(os.getpid(), signal.SIGKILL)
    if wish == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    if wish == 3:
        raise MotetError("field x is 3; accepted: 4")
    if wish == 4:
        raise ZeroDivisionError("a bug")
    x = task.message["x"]
    assert isinstance(x, torch.Tensor)
    return Outcome(task.client_id, {"x": 2 * x}, {"seen": float(private.get("seen", 0)) + 1}, None)


def _mark(task: Task) -> bool:
    """Whether this client has killed a worker before; says so from now on."""
    mark = Path(os.environ["MOTET_TEST_MARKS"]) / str(task.client_id)
    known = mark.exists()
    mark.touch()
    return known


def build_double() -> object:
    return double


def tasks(wish: int, count: int = 5, size: int = 10) -> list[Task]:
    return [Task("train", i, 1, {"x": torch.full((size,), float(i)), "wish": wish}) for i in range(count)]


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    """One pool for all tests here that do not close it: starting a process takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOTET_TEST_MARKS", str(tmp_path_factory.mktemp("marks")))
        engine = Pool(build_double, WORKERS, {i: i for i in range(5)})  # type: ignore[arg-type]
        yield engine
        engine.close()


def test_outcomes_come_in_the_order_of_tasks_and_states_are_kept(pool: Pool) -> None:
    before = [float(pool.private(i).get("seen", 0)) for i in range(5)]
    for times in (1, 2):
        outcomes = pool.run(tasks(wish=0))
        assert [o.client_id for o in outcomes] == list(range(5))
        assert all(torch.equal(o.reply["x"], torch.full((10,), 2.0 * o.client_id)) for o in outcomes if o.reply)
        assert [pool.private(i)["seen"] for i in range(5)] == [seen + times for seen in before]


def test_messages_larger_than_the_box_make_it_grow(pool: Pool) -> None:
    for size in (10, 300_000, 20):
        outcomes = pool.run(tasks(wish=0, size=size))
        assert all(o.reply is not None and len(o.reply["x"]) == size for o in outcomes)  # type: ignore[arg-type]


def test_a_killed_worker_is_replaced_and_the_work_repeated(pool: Pool) -> None:
    pool.restore(1, {})
    pids = {worker.process.pid for worker in pool.workers}
    outcomes = pool.run(tasks(wish=1, count=2))
    assert [float(o.reply["x"][0]) for o in outcomes if o.reply] == [0.0, 2.0]  # type: ignore[index]
    assert pool.private(1)["seen"] == 1.0
    assert len(pids - {worker.process.pid for worker in pool.workers}) == 1


def test_work_that_always_kills_is_given_up_with_a_sentence(pool: Pool) -> None:
    with pytest.raises(MotetError, match="client 0 ended its process 3 times"):
        pool.run(tasks(wish=2, count=1))


def test_a_users_mistake_and_a_bug_come_back_as_what_they_are(pool: Pool) -> None:
    with pytest.raises(MotetError, match="field x is 3; accepted: 4"):
        pool.run(tasks(wish=3, count=1))
    with pytest.raises(RuntimeError, match="a bug"):
        pool.run(tasks(wish=4, count=1))


def test_closing_leaves_no_process_and_no_shared_memory() -> None:
    pool = Pool(build_double, WORKERS, {})  # type: ignore[arg-type]
    before = set(Path("/dev/shm").glob("motet-*"))  # other runs of this machine
    pool.run(tasks(wish=0, size=200_000))
    processes = [worker.process for worker in pool.workers]
    assert len(processes) == WORKERS
    pool.close()
    assert not any(process.is_alive() for process in processes)
    assert set(Path("/dev/shm").glob("motet-*")) <= before


def rows(folder: Path) -> list[dict[str, object]]:
    return [{k: v for k, v in row.items() if "seconds" not in k} for row in Record(folder).rounds]


@pytest.mark.slow
@pytest.mark.parametrize("method", ALONE)
def test_the_same_bits_as_inline(method: str, tmp_path: Path) -> None:
    for engine in ("inline", "pool"):
        run(tiny(method, engine={"name": engine, "workers": WORKERS}), tmp_path / engine)
    assert rows(tmp_path / "inline") == rows(tmp_path / "pool")
    for name in ("clients.jsonl", "weights.safetensors"):
        found = [(tmp_path / engine / name) for engine in ("inline", "pool")]
        assert found[0].exists() == found[1].exists()
        assert not found[0].exists() or found[0].read_bytes() == found[1].read_bytes()
    files = [sorted(p.name for p in (tmp_path / e / "checkpoint").glob("*.safetensors")) for e in ("inline", "pool")]
    assert files[0] == files[1]
    for name in files[0]:
        there, here = (tmp_path / e / "checkpoint" / name for e in ("inline", "pool"))
        assert there.read_bytes() == here.read_bytes()


def test_a_run_whose_worker_is_killed_ends_with_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"name": "pool", "workers": WORKERS}
    run(tiny("scaffold", engine={"name": "inline"}), tmp_path / "inline")
    hired: list[int] = []
    hire = Pool._hire

    def remember(self: Pool) -> object:
        worker = hire(self)
        hired.append(worker.process.pid or 0)
        return worker

    monkeypatch.setattr(Pool, "_hire", remember)

    def kill_the_first_when_it_works() -> None:
        while not (tmp_path / "pool" / "rounds.jsonl").exists():
            time.sleep(0.01)
        os.kill(hired[0], signal.SIGKILL)

    killer = threading.Thread(target=kill_the_first_when_it_works)
    killer.start()
    run(tiny("scaffold", rounds={"count": 3, "cohort": 0.5}, engine=settings), tmp_path / "pool")
    killer.join()
    assert len(hired) == WORKERS + 1
    assert rows(tmp_path / "inline") == rows(tmp_path / "pool")
    weights = [(tmp_path / engine / "weights.safetensors").read_bytes() for engine in ("inline", "pool")]
    assert weights[0] == weights[1]


def test_the_store_spills_what_was_used_longest_ago_and_brings_it_back() -> None:
    store = PrivateStore(limit=3 * 4200)
    for client in range(10):
        store.put(client, {"w": torch.full((1000,), float(client)), "rounds": client})
    assert store.held <= store.limit
    assert store.get(11) == {}
    for client in (9, 0, 5, 0):
        state = store.get(client)
        assert torch.equal(state["w"], torch.full((1000,), float(client)))  # type: ignore[arg-type]
        assert state["rounds"] == client
    store.put(0, {"w": torch.zeros(1000)})
    for client in range(1, 10):
        store.get(client)
    assert "rounds" not in store.get(0)
    store.close()


def test_inline_and_pool_share_the_store() -> None:
    engine = Inline(double)
    engine.run(tasks(wish=0))
    assert engine.store.get(3)["seen"] == 1.0
    engine.close()
