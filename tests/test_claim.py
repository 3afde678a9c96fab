"""Runs that name no folder never take the same one."""

import subprocess
import sys
from pathlib import Path

import pytest

from motet.cli import main
from motet.config.experiment import resolve
from motet.errors import MotetError
from motet.runs.folder import claimed, new_folder
from motet.runs.record import Record

TINY = ["--rounds", "1", "--clients", "6", "--epochs", "1", "--set", "engine.name=inline"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
def test_simultaneous_runs_do_not_collide() -> None:
    """D8 of the review: 4 of 12 died."""
    command = [sys.executable, "-m", "motet", "run", *TINY, "--json"]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(4)]
    ends = [process.communicate(timeout=300) for process in running]
    assert [process.returncode for process in running] == [0] * 4, ends
    assert sorted(path.name for path in Path("runs").iterdir()) == [
        "digits-fedavg-seed0",
        *(f"digits-fedavg-seed0-{i}" for i in (2, 3, 4)),
    ]
    assert all(Record(path).finished for path in Path("runs").iterdir())


def test_a_folder_that_another_process_makes_first_is_not_taken(tmp_path: Path) -> None:
    names = iter([tmp_path / "a", tmp_path / "a", tmp_path / "b"])
    assert new_folder(lambda: next(names)) == tmp_path / "a"
    assert new_folder(lambda: next(names)) == tmp_path / "b"


def test_a_refused_run_leaves_no_folder() -> None:
    assert main(["run", *TINY, "--cohort", "99"]) == 2
    assert not Path("runs").exists()
    with pytest.raises(ZeroDivisionError), claimed(None, resolve({})) as folder:
        (folder / "something").touch()
        raise ZeroDivisionError
    assert folder.exists()


def test_a_file_in_the_way_is_a_sentence() -> None:
    Path("runs").touch()
    with pytest.raises(MotetError, match="cannot write runs/"), claimed(None, resolve({})):
        pass
