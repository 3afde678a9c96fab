"""The record of a run: one writer, whole lines, clear errors."""

import errno
import json
import math
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from made_records import ENVIRONMENT, made_summary

from motet.config.experiment import resolve
from motet.errors import MotetError
from motet.io.files import append_lines, write_atomic, writing
from motet.io.json_models import to_json
from motet.io.locks import FolderLock
from motet.runs import record as record_module
from motet.runs.environment import environment
from motet.runs.record import Record, default_folder
from motet.runs.rows import CLIENT, ROUND

EXPERIMENT = resolve({"method": "fedprox(mu=0.01)+ft", "protocol": "dbe"})

SUMMARY = made_summary(EXPERIMENT, {"personal.split.accuracy.mean": 0.5}, rounds=2)


def round_row(round: int, **more: Any) -> dict[str, Any]:
    """A line of rounds.jsonl."""
    return {"round": round, "cohort": [1], "set_aside": {}, "bytes_down": 1, "bytes_up": 2, "seconds": 0.5} | more


def client_row(client: int, **more: Any) -> dict[str, Any]:
    """A line of clients.jsonl."""
    return {"round": 1, "client": client, "new": False, "set_aside": None} | more


def create(folder: Path) -> Record:
    return Record(folder).create(EXPERIMENT, ENVIRONMENT)


# Creating


def test_a_run_reads_back(tmp_path: Path) -> None:
    with create(tmp_path / "a" / "run") as record:
        record.append_round(round_row(1, loss=0.1 + 0.2))
        record.append_round(round_row(2, loss=math.nan, lr=torch.tensor(0.5), larger=1e200))
        record.append_clients(client_row(i) for i in range(3))
        record.write_weights(b"bytes")
        record.write_summary(SUMMARY)
    back = Record(tmp_path / "a" / "run")
    assert back.experiment == EXPERIMENT
    assert back.environment == ENVIRONMENT
    assert back.rounds == [round_row(1, loss=0.1 + 0.2), round_row(2, loss=None, lr=0.5, larger=None)]
    assert back.clients == [client_row(0), client_row(1), client_row(2)]
    assert back.finished and back.summary == SUMMARY
    assert (back.folder / "weights.safetensors").read_bytes() == b"bytes"


def test_a_folder_with_a_run_is_refused(tmp_path: Path) -> None:
    create(tmp_path).close()
    with pytest.raises(MotetError) as caught:
        create(tmp_path)
    assert str(caught.value) == (
        f"output folder {tmp_path} already holds a run; "
        f"continue it with `motet resume {tmp_path}` or choose another --out"
    )


def test_a_folder_with_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(MotetError, match="is not empty; choose another --out"):
        create(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(MotetError, match="is a file; choose another --out"):
        create(tmp_path / "run")
    with pytest.raises(MotetError, match=r"cannot write .*Not a directory"):
        create(tmp_path / "run" / "inside")


def test_what_a_kill_while_creating_leaves_is_no_run(tmp_path: Path) -> None:
    for name in ("lock", "environment.json", ".experiment.toml.tmp"):
        (tmp_path / name).write_text("1")
    create(tmp_path).close()
    assert Record(tmp_path).experiment == EXPERIMENT
    assert not list(tmp_path.glob(".*.tmp"))


def test_of_two_that_create_at_once_one_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def other_was_faster(folder: Path) -> FolderLock:
        (folder / "experiment.toml").write_text("")
        return FolderLock(folder)

    monkeypatch.setattr(record_module, "FolderLock", other_was_faster)
    with pytest.raises(MotetError, match="already holds a run"):
        create(tmp_path)
    FolderLock(tmp_path).release()  # the loser holds nothing


@pytest.mark.parametrize(
    ("data", "method", "name"),
    [
        ("digits", "fedavg", "digits-fedavg-seed7"),
        ("digits", "scaffold+ft", "digits-scaffold+ft-seed7"),
        ("digits", "fedprox(mu=0.01)+ft", "digits-fedprox-mu=0.01-+ft-seed7"),
        ("../my data/faces.npz", "fedavg", "faces-fedavg-seed7"),
        ("digits", "../../etc", "digits-..-..-etc-seed7"),
        ("digits", "x" * 1000, "digits-" + "x" * 93 + "-seed7"),
    ],
)
def test_default_folder(tmp_path: Path, data: str, method: str, name: str) -> None:
    experiment = resolve({"data": {"name": data}, "method": method, "seed": 7})
    assert default_folder(experiment) == Path("runs") / name
    for suffix in ("", "-2", "-3"):
        assert default_folder(experiment, tmp_path) == tmp_path / (name + suffix)
        (tmp_path / (name + suffix)).mkdir()


# One writer


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    with create(tmp_path) as record:
        program = (
            "import sys; from pathlib import Path; from motet.runs.record import Record; Record(Path(sys.argv[1]))"
        )
        done = subprocess.run(
            [sys.executable, "-c", f"{program}.reopen()", str(tmp_path)], capture_output=True, text=True, timeout=60
        )
        assert f"MotetError: run {tmp_path} is in use by process {os.getpid()}" in done.stderr
        with pytest.raises(MotetError, match="is in use by process"):
            Record(tmp_path).reopen()
        assert record.rounds == []  # reading is free
    Record(tmp_path).reopen().close()


HOLDER = """
import os, sys, time
from pathlib import Path
from motet.io.locks import FolderLock
from motet.runs.record import Record
record = Record(Path(sys.argv[1])).reopen()
worker = os.fork()
if worker == 0:
    print(os.getpid(), flush=True)
    time.sleep(60)
time.sleep(60)
"""


def test_a_killed_writer_frees_the_run_although_its_worker_lives(tmp_path: Path) -> None:
    create(tmp_path).close()
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        worker = int(holder.stdout.readline())
        try:
            with pytest.raises(MotetError, match=f"in use by process {holder.pid}$"):
                Record(tmp_path).reopen()
            holder.send_signal(signal.SIGKILL)
            holder.wait()
            os.kill(worker, 0)  # still there
            Record(tmp_path).reopen().close()
        finally:
            os.kill(worker, signal.SIGKILL)


# Resuming


def test_lines_after_a_checkpoint_are_forgotten(tmp_path: Path) -> None:
    with create(tmp_path) as record:
        record.append_round(round_row(1))
        record.append_clients([client_row(1)])
        lengths = record.lengths()
        sizes = {name: (tmp_path / name).stat().st_size for name in ("rounds.jsonl", "clients.jsonl")}
        assert lengths == sizes and min(sizes.values()) > 50
        record.append_round(round_row(2))
        with (tmp_path / "clients.jsonl").open("ab") as file:
            file.write(b'{"client": 2, "ha')
        assert record.clients == [client_row(1)]  # half a line is no line
        record.truncate(lengths)
        assert record.lengths() == lengths
        record.append_round(round_row(2))
        assert record.rounds == [round_row(1), round_row(2)]
        record.truncate()
        assert record.lengths() == {"rounds.jsonl": 0, "clients.jsonl": 0}


def test_lines_that_are_gone_are_noticed(tmp_path: Path) -> None:
    with create(tmp_path) as record:
        record.append_round(round_row(1))
        size = (tmp_path / "rounds.jsonl").stat().st_size
        with pytest.raises(MotetError, match=rf"rounds.jsonl has {size} bytes; accepted: at least the {size + 1}"):
            record.truncate({"rounds.jsonl": size + 1})
        assert (tmp_path / "rounds.jsonl").stat().st_size == size


# What a line may say


@pytest.mark.parametrize(
    "wrong",
    [
        {"round": -1},
        {"round": 1.0},
        {"round": True},
        {"cohort": ["1"]},
        {"cohort": [10**13]},
        {"set_aside": {"x": "why"}},
        {"set_aside": {"1": 5}},
        {"seconds": None},
        {"train_losses": [None, "x"]},
        {"family_chosen": {"0.4": -1}},
        {"personal.split.accuracy.mean": "0.5"},
        {"personal.split.accuracy.mean": [0.5]},
        {"fedbasis_cosine": {"a": 1}},
    ],
)
def test_a_line_that_no_run_writes_is_neither_written_nor_read(wrong: dict[str, Any], tmp_path: Path) -> None:
    row = round_row(1) | wrong
    with create(tmp_path) as record:
        with pytest.raises(MotetError, match=r"cannot write a line of .*rounds\.jsonl: "):
            record.append_round(row)
        assert record.rounds == []
        (tmp_path / "rounds.jsonl").write_text(json.dumps(row) + "\n")
        with pytest.raises(MotetError, match=r"line 1 of .*rounds\.jsonl is damaged: ") as caught:
            _ = record.rounds
    assert next(iter(wrong)) in str(caught.value)


def test_numbers_of_a_line_stay_what_they_are(tmp_path: Path) -> None:
    columns = {"a": 3, "b": 3.0, "c": True, "d": None, "e": 0.1 + 0.2, "generic.derived": False, "n.split": 2**40}
    with create(tmp_path) as record:
        record.append_clients([client_row(-1, **columns)])
        (found,) = record.clients
    assert repr(sorted(found.items())) == repr(sorted((client_row(-1) | columns).items()))


def test_a_line_lacks_nothing_that_is_counted_on(tmp_path: Path) -> None:
    for name in round_row(1):
        with pytest.raises(MotetError, match=rf"{name} is missing"):
            ROUND.written({k: v for k, v in round_row(1).items() if k != name}, "a line")
    for name in client_row(1):
        with pytest.raises(MotetError, match=rf"{name} is missing"):
            CLIENT.read(json.dumps({k: v for k, v in client_row(1).items() if k != name}).encode(), "a line")


# Reading what is not there or not whole


def test_no_run(tmp_path: Path) -> None:
    for read in (
        lambda r: r.experiment,
        lambda r: r.rounds,
        lambda r: r.summary,
        lambda r: r.environment,
        Record.reopen,
    ):
        with pytest.raises(MotetError, match=r"is no run: no experiment\.toml there"):
            read(Record(tmp_path))
    assert not list(tmp_path.iterdir())


def test_an_unfinished_run_has_no_summary(tmp_path: Path) -> None:
    with create(tmp_path) as record:
        assert record.rounds == [] and not record.finished
        with pytest.raises(MotetError, match="is not finished; continue it with `motet resume"):
            _ = record.summary


@pytest.mark.parametrize("line", [b"{", b"7", b"", b"\xff"])
def test_a_damaged_line_is_named(tmp_path: Path, line: bytes) -> None:
    with create(tmp_path) as record:
        (tmp_path / "rounds.jsonl").write_bytes(json.dumps(round_row(1)).encode() + b"\n" + line + b"\n")
        with pytest.raises(MotetError, match=r"line 2 of .*rounds.jsonl is damaged"):
            _ = record.rounds
        (tmp_path / "summary.json").write_bytes(line)
        with pytest.raises(MotetError, match=r"summary.json is damaged"):
            _ = record.summary


# Files


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EFBIG, errno.EDQUOT, errno.EIO])
def test_what_the_disk_refuses_is_one_sentence(number: int) -> None:
    with pytest.raises(MotetError) as caught, writing(Path("a/b")):
        raise OSError(number, "x", "elsewhere")
    assert str(caught.value).startswith(f"cannot write a/b: {os.strerror(number)}")
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk() -> None:
    full = Path("/dev/full")
    said = "cannot write /dev/full: No space left on device; free some space"
    with pytest.raises(MotetError, match=said), writing(full), full.open("wb", buffering=0) as file:
        file.write(b"1")
    with pytest.raises(MotetError, match="cannot write /dev/full: it is a device or socket, not a file of the folder"):
        append_lines(full, [{"round": 1}])


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_atomic(tmp_path / "f", b"old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "x")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(MotetError, match="No space left"):
        write_atomic(tmp_path / "f", b"new")
    assert (tmp_path / "f").read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["f"]


@given(st.dictionaries(st.text(), st.floats(allow_nan=False, allow_infinity=False) | st.integers() | st.text()))
def test_json_is_exact_and_ordered(value: dict[str, Any]) -> None:
    text = to_json(value)
    assert repr(sorted(json.loads(text).items())) == repr(sorted(value.items()))
    assert text == to_json(dict(reversed(value.items()))) and "\n" not in text


def test_json_of_what_json_has_not() -> None:
    value = {"nan": math.nan, "inf": [math.inf, -math.inf], 3: np.float64(0.5), "t": torch.tensor([1, 2]), "n": (None,)}
    expected = {"nan": None, "inf": [None, None], "3": 0.5, "t": [1, 2], "n": [None]}
    assert json.loads(to_json(value)) == expected


# Environment


def test_environment_names_versions_and_no_one() -> None:
    found = environment()
    assert found.torch == torch.__version__ and found.threads == torch.get_num_threads()
    assert found.python and found.numpy and found.platform and found.cpu
    words = " ".join(str(value) for _, value in found).split()
    assert socket.gethostname() not in words and os.environ.get("USER", "root") not in words
    assert not [word for word in words if word.startswith("/")]


def test_git_commit_only_of_motet_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from motet.runs import environment as module

    monkeypatch.setattr(module, "_PACKAGE", tmp_path)
    monkeypatch.setattr(module, "_git_commit", module._git_commit.__wrapped__)  # which is asked once per process
    assert module.environment().git_commit is None

    def git(*words: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True)

    (tmp_path / "other.py").write_text("")
    git("init")
    git("add", "other.py")
    git("commit", "-m", "another project")
    (tmp_path / "__init__.py").write_text("")
    assert module.environment().git_commit is None  # installed inside another project's folder
    git("add", ".")
    git("commit", "-m", "motet")
    clean = module.environment().git_commit
    assert clean is not None and len(clean) == 40
    (tmp_path / "__init__.py").write_text("changed")
    assert module.environment().git_commit == f"{clean}+changes"
