"""Checkpoints: what is saved comes back, damage is noticed, a kill at any moment costs nothing."""

import json
import os
import random
import resource
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from motet.engines import ClientStates
from motet.errors import MotetError
from motet.io import hashed_files
from motet.io.files import read_own
from motet.io.hashed_files import ClientFiles
from motet.messages.message import State, encode
from motet.runs import checkpoint
from motet.runs.checkpoint import Checkpoints, Loaded, OtherExperiment

SAVED_BY = {"fingerprint": "f", "data_hash": "d"}


def state(value: float) -> State:
    return {"w": torch.full((5,), value), "lr": value, "round": int(value), "seen": True}


class Saved:
    """The checkpoints of a folder and the clients' states beside them, saved and loaded as a run does it."""

    def __init__(self, folder: Path):
        self.checkpoints, self.states = Checkpoints(folder), ClientStates(folder)

    def save(self, round: int, server: State, changed: dict[int, State], lengths: dict[str, int], **extra: Any) -> None:
        for client_id, new in changed.items():
            self.states.put(client_id, new)
        self.checkpoints.save(round, server, self.states.keep(round), lengths, extra, **SAVED_BY)
        self.states.kept()

    def load(self) -> Loaded | None:
        return self.checkpoints.load(is_f, "d", lambda _, entries: self.states.go_back(entries))

    def private(self, client_id: int) -> State:
        return self.states.get(client_id)


def save(saved: Saved, round: int, *clients: int, **extra: Any) -> None:
    changed = {i: state(100 * i + round) for i in clients}
    saved.save(round, state(round), changed, {"rounds.jsonl": 10 * round}, **extra)


def load(folder: Path) -> tuple[Loaded, Saved]:
    saved = Saved(folder)
    loaded = saved.load()
    assert loaded is not None
    return loaded, saved


def is_f(fingerprint: str, extra: object) -> bool:
    return fingerprint == "f"


def nothing(round: int, entries: ClientFiles) -> None:
    """For who does not ask about clients."""


def same(a: State, b: State) -> bool:
    return encode(a) == encode(b)


def three_rounds(folder: Path) -> None:
    saved = Saved(folder)
    save(saved, 1, 0, 1)
    save(saved, 2, 1, 2)
    save(saved, 3, 0)


def test_what_was_saved_comes_back(tmp_path: Path) -> None:
    save(Saved(tmp_path / "checkpoint"), 12, 3, best={"round": 4, "accuracy": 0.1 + 0.2})
    loaded, saved = load(tmp_path / "checkpoint")
    assert (loaded.round, loaded.lengths, loaded.warning) == (12, {"rounds.jsonl": 120}, None)
    assert loaded.extra == {"best": {"round": 4, "accuracy": 0.1 + 0.2}}
    assert list(loaded.clients) == [3]
    assert same(loaded.server, state(12)) and same(saved.private(3), state(312))
    assert isinstance(loaded.server["round"], int) and loaded.server["seen"] is True


def test_a_run_without_checkpoint_has_none(tmp_path: Path) -> None:
    assert Saved(tmp_path / "nothing").load() is None
    assert not (tmp_path / "nothing").exists()


def test_only_changed_clients_are_written_and_the_others_remembered(tmp_path: Path) -> None:
    three_rounds(tmp_path)
    loaded, saved = load(tmp_path)
    assert list(loaded.clients) == [0, 1, 2]
    assert [saved.private(i)["lr"] for i in loaded.clients] == [3, 102, 202]


def test_two_checkpoints_are_kept_and_nothing_else(tmp_path: Path) -> None:
    three_rounds(tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {
        "000002.json",
        "000003.json",
        "server-000002.safetensors",
        "server-000003.safetensors",
        "client-00000-000001.safetensors",  # what round 2 knows of client 0
        "client-00000-000003.safetensors",
        "client-00001-000002.safetensors",
        "client-00002-000002.safetensors",
    }


def test_saving_goes_on_after_loading(tmp_path: Path) -> None:
    three_rounds(tmp_path)
    _, saved = load(tmp_path)
    save(saved, 4, 2)
    assert [load(tmp_path)[1].private(i)["lr"] for i in (0, 1, 2)] == [3, 102, 204]


def test_saving_over_unread_checkpoints_is_a_mistake(tmp_path: Path) -> None:
    three_rounds(tmp_path)
    with pytest.raises(RuntimeError, match="not loaded"):
        save(Saved(tmp_path), 4)


@pytest.mark.parametrize("name", ["server-000003.safetensors", "client-00000-000003.safetensors", "000003.json"])
@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "remove"])
def test_damage_falls_back_and_says_so(tmp_path: Path, name: str, damage: str) -> None:
    three_rounds(tmp_path)
    path = tmp_path / name
    data = bytearray(path.read_bytes())
    if damage == "flip":
        data[len(data) // 2] ^= 1
    path.write_bytes({"flip": data, "cut": data[:-3], "empty": b""}.get(damage, b""))
    if damage == "remove":
        path.unlink()
    loaded, saved = load(tmp_path)
    assert loaded.round == 2 and same(loaded.server, state(2)) and same(saved.private(0), state(1))
    if (name, damage) == ("000003.json", "remove"):
        return  # no trace is left of it
    assert loaded.warning is not None
    assert name in loaded.warning and "round 3" in loaded.warning and "round 2" in loaded.warning


def test_the_way_on_from_a_fallback(tmp_path: Path) -> None:
    three_rounds(tmp_path)
    (tmp_path / "server-000003.safetensors").write_bytes(b"")
    save(load(tmp_path)[1], 3, 0)
    loaded, saved = load(tmp_path)
    assert (loaded.round, loaded.warning) == (3, None)
    assert [saved.private(i)["lr"] for i in (0, 1, 2)] == [3, 102, 202]


def test_a_manifest_beyond_the_saved_round_goes(tmp_path: Path) -> None:
    three_rounds(tmp_path)
    (tmp_path / "000009.json").write_text("damaged")
    save(load(tmp_path)[1], 4)
    assert sorted(p.name for p in tmp_path.glob("*.json")) == ["000003.json", "000004.json"]


def test_all_damaged_is_an_error(tmp_path: Path) -> None:
    three_rounds(tmp_path)
    for path in tmp_path.glob("server-*"):
        path.write_bytes(b"")
    with pytest.raises(MotetError, match=r"server-000003.*server-000002"):
        load(tmp_path)


def test_every_private_state_is_read_once_and_before_the_checkpoint_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    three_rounds(tmp_path)
    read = []
    for module in (hashed_files, checkpoint):
        monkeypatch.setattr(module, "read_own", lambda path, most: (read.append(path.name), read_own(path, most))[1])
    load(tmp_path)
    clients = [f"client-0000{i}-00000{r}.safetensors" for i, r in ((0, 3), (1, 2), (2, 2))]
    assert sorted(read) == sorted(["000003.json", "server-000003.safetensors", *clients])


def test_a_client_that_only_the_damaged_checkpoint_knows_is_forgotten(tmp_path: Path) -> None:
    saved = Saved(tmp_path)
    save(saved, 1, 0)
    save(saved, 2, 0, 1, 2)
    (tmp_path / "client-00002-000002.safetensors").write_bytes(b"")
    loaded, saved = load(tmp_path)
    assert loaded.round == 1 and [saved.private(i) for i in (1, 2)] == [{}, {}]
    save(saved, 2, 2)
    assert list(load(tmp_path)[0].clients) == [0, 2]


def test_another_experiment_other_data_and_a_newer_format_are_refused(tmp_path: Path) -> None:
    three_rounds(tmp_path)
    with pytest.raises(OtherExperiment, match="another experiment"):
        Checkpoints(tmp_path).load(lambda *_: False, "d", nothing)
    with pytest.raises(MotetError, match="other data"):
        Checkpoints(tmp_path).load(is_f, "e", nothing)
    manifest = json.loads((tmp_path / "000003.json").read_text())
    (tmp_path / "000003.json").write_text(json.dumps(manifest | {"format": checkpoint.FORMAT + 1}))
    with pytest.raises(MotetError, match=r"has format 2; accepted: up to 1"):
        load(tmp_path)


def test_the_experiment_of_a_checkpoint_can_be_asked_for(tmp_path: Path) -> None:
    assert Checkpoints(tmp_path).recorded_extra() == {}
    saved = Saved(tmp_path)
    save(saved, 1, experiment="one")
    save(saved, 2, experiment="two")
    assert Checkpoints(tmp_path).recorded_extra() == {"experiment": "two"}
    (tmp_path / "000002.json").write_bytes(b"")
    assert Checkpoints(tmp_path).recorded_extra() == {"experiment": "one"}


def test_half_written_files_of_a_killed_process_go(tmp_path: Path) -> None:
    three_rounds(tmp_path)
    stale = tmp_path / ".server-000004.safetensors.tmp"
    stale.write_bytes(b"half")
    load(tmp_path)
    assert not stale.exists()


def test_a_disk_that_refuses_leaves_the_last_checkpoint(tmp_path: Path) -> None:
    saved = Saved(tmp_path)
    save(saved, 1, 0)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(MotetError, match=r"cannot write .*server-000002.*: File too large"):
            saved.save(2, {"w": torch.zeros(1000)}, {1: state(1)}, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert load(tmp_path)[0].round == 1
    assert not list(tmp_path.glob(".*.tmp"))
    save(saved, 2)
    assert list(load(tmp_path)[0].clients) == [0, 1]  # what changed before the failure is still to be written


def test_a_hundred_clients_are_saved_quickly(tmp_path: Path) -> None:
    saved = Saved(tmp_path)
    clients: dict[int, State] = {i: {"w": torch.zeros(100_000)} for i in range(100)}
    start = time.perf_counter()
    saved.save(1, state(1), clients, {})
    saved.save(2, state(2), {}, {})
    assert sorted(load(tmp_path)[0].clients) == list(range(100))
    assert time.perf_counter() - start < 10  # 40 MB; generous for a slow disk
    assert len(list(tmp_path.glob("client-*"))) == 100


def save_forever(folder: Path) -> None:
    """All that a checkpoint holds can be computed from its round."""
    saved = Saved(folder)
    loaded = saved.load()
    round = loaded.round if loaded else 0
    while True:
        round += 1
        changed = {i: vector(round) for i in range(6) if (round + i) % 3 == 0}
        saved.save(round, vector(round), changed, {"rounds.jsonl": round})


def vector(round: int) -> State:
    return {"w": torch.full((2000,), float(round)), "round": round}


def last_change(client: int, round: int) -> int:
    return next(r for r in range(round, 0, -1) if (r + client) % 3 == 0)


def test_kill_at_any_moment(tmp_path: Path) -> None:
    moments = random.Random(0)
    reached, progress = 0, 0
    for kill in range(400):  # 40 kills, and on a busy machine as many more as it takes
        if kill >= 40 and progress >= 5:
            break
        saver = os.fork()
        if saver == 0:
            try:
                save_forever(tmp_path)
            finally:
                os._exit(1)  # save_forever failed
        time.sleep(moments.uniform(0.001, 0.1))
        os.kill(saver, signal.SIGKILL)
        _, status = os.waitpid(saver, 0)
        assert os.WIFSIGNALED(status)
        saved = Saved(tmp_path)
        loaded = saved.load()
        if loaded is None:
            assert reached == 0
            continue
        assert loaded.warning is None and loaded.round >= reached
        progress += loaded.round > reached
        reached = loaded.round
        assert loaded.lengths == {"rounds.jsonl": reached}
        assert same(loaded.server, vector(reached))
        assert list(loaded.clients) == [i for i in range(6) if any((r + i) % 3 == 0 for r in range(1, reached + 1))]
        assert all(same(saved.private(i), vector(last_change(i, reached))) for i in loaded.clients)
    assert progress >= 5


def test_kill_between_any_two_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As above, but exact: stop a save before each of its writes and removals in turn."""

    class Killed(BaseException):
        pass

    def stopping_after(steps: int) -> None:
        left = iter(range(steps))

        def step(real: Any) -> Any:
            def stepped(*args: Any, **kwargs: Any) -> Any:
                if next(left, None) is None:
                    raise Killed
                return real(*args, **kwargs)

            return stepped

        monkeypatch.setattr(hashed_files, "replace_file", step(hashed_files.replace_file))
        monkeypatch.setattr(checkpoint, "write_atomic", step(checkpoint.write_atomic))
        monkeypatch.setattr(Path, "unlink", step(Path.unlink))

    rounds = []
    for steps in range(12):
        folder = tmp_path / str(steps)
        saved = Saved(folder)
        save(saved, 1, 0, 1)
        save(saved, 2, 0, 1)
        with monkeypatch.context():
            stopping_after(steps)
            try:
                save(saved, 3, 0, 1)
                finished = True
            except Killed:
                finished = False
            monkeypatch.undo()
        loaded, again = load(folder)
        assert loaded.warning is None
        assert [again.private(i)["lr"] for i in (0, 1)] == [loaded.round, 100 + loaded.round]
        rounds.append(loaded.round)
    assert finished
    assert rounds[:4] == [2, 2, 2, 2] and set(rounds[4:]) == {3}
