"""Nothing is lost: kill -9 at any moment, resume, and every byte comes out as if nothing had happened."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from motet.config.experiment import Experiment, write
from motet.errors import MotetError
from motet.messages.message import decode
from motet.runs.checkpoint import Checkpoints, CheckpointSchedule
from motet.runs.record import Record
from motet.runs.run import resume, run
from motet.server.assembly import assemble
from motet.testing.twin import last_states, tiny
from motet.training.flat_weights import Layout

REPOSITORY = Path(__file__).parents[1]
# Private state of every kind: control variates, velocities, kept models; new clients at the end.
ROUNDS = 12
CASES = {
    "every round": ("scaffold+ft(epochs=1)", {"every": 1}),
    "every third round": ("feddyn", {"every": 3}),
    "every fifth round": ("local", {"every": 5}),  # due at 5 and 10, and at 12 because it is the last
    "when it costs little": ("scaffold", {"every": "auto"}),
}


def experiment(method: str = "scaffold", **changes: Any) -> Experiment:
    plain = {"rounds": {"count": ROUNDS}, "local": {"momentum_across_rounds": "persist"}, "scoring": {"every": 3}}
    return tiny(method, **plain | changes)


def timeless(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if not k.endswith("seconds")} for row in rows]


def files(folder: Path) -> dict[str, bytes]:
    """The final weights and all data of the kept checkpoints."""
    found = {"weights.safetensors": folder / "weights.safetensors"}
    found |= {path.name: path for path in (folder / "checkpoint").glob("*.safetensors")}
    return {name: path.read_bytes() for name, path in found.items() if path.exists()}


def assert_same_run(folder: Path, uninterrupted: Path) -> None:
    one, other = Record(folder), Record(uninterrupted)
    assert timeless([one.summary.model_dump()]) == timeless([other.summary.model_dump()])
    assert timeless(one.rounds) == timeless(other.rounds)
    assert one.clients == other.clients
    assert one.experiment == other.experiment
    assert last_states(folder) == last_states(uninterrupted)
    if one.experiment.checkpoint.every == "auto":
        return  # when both were saved is a matter of time
    expected, found = files(uninterrupted), files(folder)
    # A kill between the last checkpoint and the removal of older ones may leave some of these behind.
    assert expected.keys() <= found.keys()
    assert all(found[name] == data for name, data in expected.items())


def in_a_process(work: Callable[[], object]) -> int:
    """Start the work in a process of its own; its exit status says whether it came to its end."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return child


# ---------------------------------------------------------------- twice


@pytest.mark.parametrize("method", ["scaffold+ft", "centralized"])
def test_the_same_experiment_twice_gives_the_same_record_but_for_times(method: str, tmp_path: Path) -> None:
    asked = experiment(method, rounds={"count": 3})
    one, two = run(asked, tmp_path / "one"), run(asked, tmp_path / "two")
    assert_same_run(one, two)
    assert files(one).keys() == files(two).keys()
    assert (one / "experiment.toml").read_bytes() == (two / "experiment.toml").read_bytes()
    other = run(experiment(method, rounds={"count": 3}, seed=1), tmp_path / "other")
    assert timeless(Record(one).rounds) != timeless(Record(other).rounds)


def test_the_final_weights_are_the_generic_model_of_the_last_checkpoint(tmp_path: Path) -> None:
    folder = run(experiment("scaffold", rounds={"count": 2}), tmp_path / "run")
    named = decode((folder / "weights.safetensors").read_bytes())
    server = decode((folder / "checkpoint" / "server-000002.safetensors").read_bytes())
    assert sum(value.numel() for value in named.values()) == len(server["w"])
    layout = Layout(assemble(Record(folder).experiment).workplace.generic_net)
    for name, place in layout.places.items():
        assert torch.equal(named[name], place.view(server["w"]))
    assert not (run(experiment("local", rounds={"count": 1}), tmp_path / "local") / "weights.safetensors").exists()


# ---------------------------------------------------------------- killed


@pytest.mark.parametrize("case", CASES)
def test_kill_in_a_loop_then_resume_ends_in_the_same_bytes(case: str, tmp_path: Path) -> None:
    method, checkpoint = CASES[case]
    asked = experiment(method, checkpoint=checkpoint)
    began = time.perf_counter()
    whole = run(asked, tmp_path / "whole")
    length = time.perf_counter() - began
    moments, kills, folder = random.Random(case), 0, tmp_path / "killed"
    stop = time.perf_counter() + 3 * length + 1
    while True:
        is_run = (folder / "experiment.toml").exists()
        if is_run and Record(folder).finished:
            break
        child = in_a_process(lambda go_on=is_run: resume(folder) if go_on else run(asked, folder))
        if time.perf_counter() < stop:
            time.sleep(moments.uniform(0, length / 3))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status) or os.waitstatus_to_exitcode(status) == 0
        kills += os.WIFSIGNALED(status)
    assert kills >= 3
    assert_same_run(folder, whole)


def test_a_real_command_killed_by_the_system_and_resumed_by_another(tmp_path: Path) -> None:
    """Not a fork of this test but a fresh interpreter, as after a reboot."""
    asked = experiment("scaffold", rounds={"count": 15}, scoring={"every": 15})
    write(asked, tmp_path / "asked.toml")
    script = (
        "import sys; from pathlib import Path; from motet.runs.run import run, resume; "
        "from motet.config.experiment import read, resolve; asked, folder = map(Path, sys.argv[1:]); "
        "resume(folder) if folder.exists() else run(resolve(read(asked)), folder)"
    )
    folder = tmp_path / "killed"
    command = [sys.executable, "-c", script, str(tmp_path / "asked.toml"), str(folder)]
    process = subprocess.Popen(command, cwd=REPOSITORY)
    while len(list((folder / "checkpoint").glob("*.json"))) < 2:
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    stopped = json.loads(max((folder / "checkpoint").glob("*.json")).read_bytes())["round"]
    assert 0 < stopped < 15 and not Record(folder).finished
    subprocess.run(command, cwd=REPOSITORY, check=True, timeout=120)
    assert_same_run(folder, run(asked, tmp_path / "whole"))


class Stop(BaseException):
    """A kill at an exact place."""


class StopsAfter:
    """A watcher that ends the process's work after a round."""

    def __init__(self, round: int):
        self.last = round
        self.warning: str | None = None
        self.began = -1

    def started(self, experiment: Experiment, folder: Path, round: int, warning: str | None) -> None:
        """Remember where the run went on."""
        self.began, self.warning = round, warning

    def round(self, row: dict[str, object]) -> None:
        """Stop there."""
        if row["round"] == self.last:
            raise Stop


def stopped(asked: Experiment, folder: Path, round: int) -> None:
    with pytest.raises(Stop):
        run(asked, folder, StopsAfter(round))


@pytest.mark.parametrize(("every", "goes_on_from"), [(1, 4), (3, 3), (10, 0)])
def test_a_run_goes_on_from_its_last_checkpoint(every: int, goes_on_from: int, tmp_path: Path) -> None:
    asked = experiment("scaffold", rounds={"count": 6}, checkpoint={"every": every})
    stopped(asked, tmp_path / "run", 4)
    assert len(Record(tmp_path / "run").rounds) == 4
    watcher = StopsAfter(99)
    resume(tmp_path / "run", watcher)
    assert (watcher.began, watcher.warning) == (goes_on_from, None)
    assert [row["round"] for row in Record(tmp_path / "run").rounds] == [1, 2, 3, 4, 5, 6]
    assert_same_run(tmp_path / "run", run(asked, tmp_path / "whole"))


@pytest.mark.parametrize("method", ["fedavg+dbe", "scaffold", "fedbasis"])
def test_a_method_resumes_exactly(method: str, tmp_path: Path) -> None:
    """Also one that asks the clients something before the first round: it asks once."""
    asked = experiment(method, rounds={"count": 2, "cohort": 1.0})
    stopped(asked, tmp_path / "run", 1)
    resume(tmp_path / "run")
    assert_same_run(tmp_path / "run", run(asked, tmp_path / "whole"))


def test_a_run_may_be_resumed_with_another_checkpoint_rhythm(tmp_path: Path) -> None:
    """How often a run is saved changes no number, so it is no other experiment."""
    asked = experiment("scaffold", rounds={"count": 5}, checkpoint={"every": 2})
    stopped(asked, tmp_path / "run", 3)
    write(experiment("scaffold", rounds={"count": 5}, checkpoint={"every": 1}), tmp_path / "run" / "experiment.toml")
    resume(tmp_path / "run")
    whole = run(asked, tmp_path / "whole")
    assert files(tmp_path / "run")["weights.safetensors"] == files(whole)["weights.safetensors"]
    assert timeless(Record(tmp_path / "run").rounds) == timeless(Record(whole).rounds)


class Clock:
    """Time that passes only where a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Minute:
    """A watcher for whom every round takes a minute."""

    def __init__(self, clock: Clock):
        self.clock = clock

    def started(self, *_: object) -> None:
        """Nothing to do."""

    def round(self, row: dict[str, object]) -> None:
        """The next round begins a minute later."""
        self.clock.now += 60


@pytest.mark.parametrize(
    ("every", "seconds", "saved"),
    [
        ("auto", 1.0, list(range(1, 13))),
        ("auto", 10.0, [1, 5, 9, 12]),  # a twentieth of 200 seconds, and of four minutes
        ("auto", 1000.0, [1, 12]),
        (5, 1000.0, [5, 10, 12]),
    ],
)
def test_saving_takes_a_small_share_of_the_time(
    every: int | str, seconds: float, saved: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, rounds, save = Clock(), [], Checkpoints.save

    def slow(self: Checkpoints, round: int, *rest: Any) -> None:
        save(self, round, *rest)
        clock.now += seconds
        rounds.append(round)

    monkeypatch.setattr(Checkpoints, "save", slow)
    monkeypatch.setattr("motet.runs.run.CheckpointSchedule", partial(CheckpointSchedule, clock=clock))
    folder = run(experiment("fedavg", checkpoint={"every": every}), tmp_path / "run", Minute(clock))
    assert rounds == saved
    told = {row["round"]: row["checkpoint_seconds"] for row in Record(folder).rounds}
    assert told == {r: seconds if r - 1 in saved else 0.0 for r in range(1, 13)}


def test_what_was_prepared_is_saved_before_the_first_round(tmp_path: Path) -> None:
    asked = experiment("dbe", rounds={"count": 3}, checkpoint={"every": "auto"})
    stopped(asked, tmp_path / "run", 0)
    watcher = StopsAfter(99)
    resume(tmp_path / "run", watcher)
    assert watcher.began == 0 and [row["round"] for row in Record(tmp_path / "run").rounds] == [0, 1, 2, 3]
    assert_same_run(tmp_path / "run", run(asked, tmp_path / "whole"))


def test_a_finished_run_is_left_as_it_is(tmp_path: Path) -> None:
    folder = run(experiment("fedavg", rounds={"count": 1}), tmp_path / "run")
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert resume(folder) == folder
    assert before == {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


# ---------------------------------------------------------------- damaged


@pytest.mark.parametrize("kind", ["server", "client", "manifest"])
def test_a_damaged_newest_checkpoint_falls_back_and_says_so(kind: str, tmp_path: Path) -> None:
    asked = experiment("scaffold", rounds={"count": 6, "cohort": 1.0})
    folder = tmp_path / "run"
    stopped(asked, folder, 4)
    patterns = {"server": "server-000004*", "client": "client-*-000004*", "manifest": "000004.json"}
    damaged = sorted((folder / "checkpoint").glob(patterns[kind]))[0]
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 0xFF
    damaged.write_bytes(data)
    watcher = StopsAfter(99)
    resume(folder, watcher)
    assert watcher.began == 3
    assert watcher.warning is not None
    assert watcher.warning.startswith("the checkpoint of round 4 is damaged (") and damaged.name in watcher.warning
    assert watcher.warning.endswith("; going on from round 3")
    assert_same_run(folder, run(asked, tmp_path / "whole"))


def test_another_experiment_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    stopped(experiment("scaffold"), folder, 2)
    before = files(folder)
    write(experiment("scaffold", local={"lr": 0.2, "momentum_across_rounds": "persist"}), folder / "experiment.toml")
    with pytest.raises(MotetError, match=r"belongs to another experiment.*local.lr: 0.05 there, 0.2 here"):
        resume(folder)
    assert files(folder) == before


def test_emulated_bfloat16_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = {}
    for has_it in (True, False):
        monkeypatch.setattr("motet.runs.run.cpu_has_bf16", lambda has_it=has_it: has_it)
        watcher = StopsAfter(99)
        run(tiny("fedavg", precision="bf16"), tmp_path / str(has_it), watcher)
        said[has_it] = watcher.warning
    assert said[True] is None and "emulates bfloat16" in str(said[False])


def test_other_data_under_the_same_name_are_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(120, 4)).astype(np.float32), np.arange(120) % 3
    file, folder = tmp_path / "own.npz", tmp_path / "run"
    np.savez(file, x=x, y=y)
    stopped(experiment("fedavg", data={"name": str(file), "subset": 1.0, "min_size": 1}), folder, 2)
    x[7, 2] += 1
    np.savez(file, x=x, y=y)
    with pytest.raises(MotetError, match=r"was trained on other data; accepted: data with the hash [0-9a-f]{64}$"):
        resume(folder)
