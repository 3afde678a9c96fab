"""Memory and bookkeeping grow with the clients of a round, not with the clients of the federation."""

import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

from motet.engines import ClientStates, Inline, PrivateStore
from motet.engines import client_states as store_module
from motet.errors import MotetError
from motet.messages.message import State, byte_count, encode
from motet.messages.task import Outcome, Task
from motet.runs.checkpoint import Checkpoints
from motet.runs.record import Record
from motet.runs.run import resume, run
from motet.server.assembly import assemble
from motet.server.round_loop import RoundLoop, RunState
from motet.testing.twin import Notes, tiny

MANY: dict[str, Any] = {
    "data": {"clients": 300, "partition": "iid", "min_size": 1, "new_clients": 0.0, "val_share": 0.0, "subset": 1.0},
    "rounds": {"count": 6, "cohort": 100.0},
    "scoring": {"every": 6, "personal_model": "last_participation"},
    "checkpoint": {"every": 2},
}


# ---------------------------------------------------------------- the store


def state(client: int, size: int = 1000) -> State:
    return {"w": torch.full((size,), float(client)), "rounds": client}


def test_the_store_spills_what_was_used_longest_ago_and_brings_it_back() -> None:
    store = PrivateStore(limit=3 * 4200)
    for client in range(10):
        store.put(client, state(client))
    assert store.held <= store.limit
    assert store.get(11) == {}
    for client in (9, 0, 5, 0):
        assert encode(store.get(client)) == encode(state(client))
    store.put(0, {"w": torch.zeros(1000)})
    for client in range(1, 10):
        store.get(client)
    assert "rounds" not in store.get(0)
    store.close()


def test_states_that_shrink_and_grow_do_not_write_over_each_other() -> None:
    store = PrivateStore(limit=1)
    sizes = torch.randint(1, 3000, (8, 20), generator=torch.Generator().manual_seed(0)).tolist()
    for turn in sizes:
        for client, size in enumerate(turn):
            store.put(client, state(client, size))
        for client, size in enumerate(turn):
            assert encode(store.get(client)) == encode(state(client, size))
    store.close()


def test_a_disk_that_refuses_states_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store_module.tempfile, "TemporaryFile", full)
    store = PrivateStore(limit=1)
    store.put(0, state(0))
    with pytest.raises(
        MotetError, match=r"cannot keep private states in .*: No space left on device; accepted: a TMPDIR"
    ):
        store.put(1, state(1))


# ---------------------------------------------------------------- whole runs


@pytest.mark.slow
def test_spilled_states_change_no_bit_also_over_a_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = tiny("scaffold", **MANY)
    run(asked, tmp_path / "unlimited")
    model = byte_count({"w": assemble(asked).method.start()["w"]})
    monkeypatch.setattr(PrivateStore.__init__, "__defaults__", (5 * model,))
    spilled = []
    spill = PrivateStore._spill
    monkeypatch.setattr(PrivateStore, "_spill", lambda self, client: (spilled.append(client), spill(self, client))[1])

    class Stop(BaseException):
        pass

    class StopsAfterFour:
        def started(self, *_: object) -> None:
            pass

        def round(self, row: dict[str, object]) -> None:
            if row["round"] == 4:
                raise Stop

    with pytest.raises(Stop):
        run(asked, tmp_path / "little", StopsAfterFour())
    assert len(set(spilled)) > 150
    spilled.clear()
    resume(tmp_path / "little")
    assert len(set(spilled)) > 150
    one, other = Record(tmp_path / "little"), Record(tmp_path / "unlimited")
    assert one.clients == other.clients
    names = sorted(path.name for path in (other.folder / "checkpoint").glob("*.safetensors"))
    assert len(names) > 250  # nearly every client took part
    for name in ("weights.safetensors", *(f"checkpoint/{name}" for name in names)):
        assert (one.folder / name).read_bytes() == (other.folder / name).read_bytes()


class Suspicious(Inline):
    """Takes no task whose message is written already: messages of all clients together may not fit in memory."""

    kinds: ClassVar[set[str]] = set()

    def run(self, tasks: Sequence[Task]) -> list[Outcome]:
        assert all(callable(task.message) for task in tasks)
        self.kinds.update(task.kind for task in tasks)
        return list(super().run(tasks))


@pytest.mark.parametrize("personal_model", ["last_participation", "final_sync"])
def test_messages_are_written_when_tasks_are_handed_out_whatever_the_kind(personal_model: str) -> None:
    assembly = assemble(tiny("dbe", scoring={"personal_model": personal_model}))
    assembly.engine = Suspicious(assembly.workplace)
    progress = RoundLoop(assembly, Notes()).run(RunState(0, assembly.method.start()))
    assembly.evaluator.new_clients(progress.server, progress.round)
    last = "sync_score" if personal_model == "final_sync" else "score"
    assert {"prepare", "train", last, "adapt"} <= Suspicious.kinds


# ---------------------------------------------------------------- checkpoints


def test_a_save_touches_the_files_of_changed_clients_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No reading back, no listing of the folder, once the first save has looked around."""
    checkpoints, states = Checkpoints(tmp_path), ClientStates(tmp_path)

    def save(round: int, *clients: int) -> None:
        for i in clients:
            states.put(i, state(i, 3))
        checkpoints.save(round, state(round, 3), states.keep(round), {}, {}, fingerprint="f", data_hash="d")
        states.kept()

    save(1, *range(500))
    touched: list[str] = []
    for name in ("iterdir", "glob", "read_bytes"):
        monkeypatch.setattr(Path, name, lambda self, *_, name=name: touched.append(name) or iter(()))
    unlink = Path.unlink
    monkeypatch.setattr(Path, "unlink", lambda self, **k: (touched.append(self.name), unlink(self, **k))[1])
    save(2, 7, 8)
    save(3, 8, 9)
    monkeypatch.undo()
    assert sorted(touched) == [
        "000001.json",
        "client-00007-000001.safetensors",
        "client-00008-000001.safetensors",
        "server-000001.safetensors",
    ]
    go_back = ClientStates(tmp_path).go_back
    loaded = Checkpoints(tmp_path).load(lambda *_: True, "d", lambda _, entries: go_back(entries))
    assert loaded is not None and loaded.round == 3 and len(loaded.clients) == 500


def test_keeping_and_going_back_hold_one_private_state_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside the store's own, which here are none: what is written or read is let go before the next."""
    alive: list[weakref.ref[torch.Tensor]] = []
    get, put = PrivateStore.get, PrivateStore.put

    def watched(state: State) -> State:
        alive.extend(weakref.ref(v) for v in state.values() if isinstance(v, torch.Tensor))
        assert sum(ref() is not None for ref in alive) <= 2  # this one, and the one before until it is replaced
        return state

    states = ClientStates(tmp_path)
    states.store.limit = 0
    for i in range(10):
        states.put(i, state(i, 3) if i % 2 else {})
    monkeypatch.setattr(PrivateStore, "get", lambda self, i: watched(get(self, i)))
    monkeypatch.setattr(PrivateStore, "put", lambda self, i, new: put(self, i, watched(new)))
    monkeypatch.setattr(PrivateStore.__init__, "__defaults__", (0,))
    entries = states.keep(1)
    assert list(entries) == [1, 3, 5, 7, 9] and len(alive) == 5
    alive.clear()
    again = ClientStates(tmp_path)
    again.go_back(entries)
    assert len(alive) == 5
    assert all(encode(again.get(i)) == encode(state(i, 3) if i % 2 else {}) for i in range(10))
