"""SIGTERM, bugs and full memory: a sentence each, and nothing lost."""

import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from motet.cli import looking, main
from motet.runs.record import Record

MOTET = [sys.executable, "-m", "motet"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MOTET_DEBUG", raising=False)


@pytest.mark.parametrize("engine", ["inline", pytest.param("pool", marks=pytest.mark.slow)])
def test_sigterm_is_an_answer_like_ctrl_c(engine: str) -> None:
    """D12 of the review: it ended without the sentence that Ctrl-C gives."""
    words = ["run", "--clients", "6", "--rounds", "500", "--epochs", "1", "--set", f"engine.name={engine}"]
    with subprocess.Popen(
        [*MOTET, *words, "--set", "checkpoint.every=1", "--out", "stopped"], stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            rounds = Path("stopped/rounds.jsonl")
            until = time.monotonic() + 60
            while time.monotonic() < until and not (rounds.exists() and rounds.read_bytes().count(b"\n") >= 2):
                time.sleep(0.01)
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 143
    assert err.splitlines()[-1] == "stopped; continue with `motet resume stopped`"
    assert "Traceback" not in err
    assert not Record(Path("stopped")).finished


def test_a_bug_says_that_it_is_one(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(Path.cwd()))
    monkeypatch.setitem(looking.CATALOGUES, "nets", partial(getattr, 1, "no\nname " + "x" * 9999))
    assert main(["list", "nets"]) == 70
    err = capsys.readouterr().err
    assert err.startswith("error: AttributeError: 'int' object has no attribute 'no name xxx")
    assert "this is a bug of Motet's" in err
    assert len(err.splitlines()) == 1 and len(err) < 600
    saved = next(Path().glob("motet-bug-*.txt"))
    assert str(saved) in err and "Traceback (most recent call last)" in saved.read_text()
    monkeypatch.setenv("MOTET_DEBUG", "1")
    assert main(["list", "nets"]) == 70
    assert "Traceback (most recent call last)" in capsys.readouterr().err
    assert len(list(Path().glob("motet-bug-*.txt"))) == 1


def broken(error: Exception) -> Any:
    def show_catalogue(what: str, json: bool) -> None:
        raise error

    return show_catalogue


@pytest.mark.parametrize(
    "error",
    [MemoryError(), RuntimeError("[enforce fail at alloc_cpu.cpp:114] DefaultCPUAllocator: can't allocate memory")],
)
def test_memory_that_runs_out_is_no_bug(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(looking, "show_catalogue", broken(error))
    assert main(["list", "nets"]) == 2
    assert capsys.readouterr().err.startswith("error: there is not enough memory for this experiment; accepted: ")


@pytest.mark.slow
def test_a_method_of_the_calling_script_with_the_pool(tmp_path: Path) -> None:
    """D12 of the review: 40 lines of traceback and a dead folder."""
    Path("script.py").write_text(
        "import motet\n"
        "from motet.methods import MethodEntry, Part\n"
        "from motet.methods import METHODS\n"
        "class Mine(Part):\n    acts = 'server'\n"
        "METHODS['mine'] = MethodEntry('mine', 'a test', '', part=Mine)\n"
        "tiny = dict(method='mine', rounds=1, clients=4, epochs=1)\n"
        "try:\n    motet.run(**tiny, out='forced', set={'engine.name': 'pool'})\n"
        "except motet.MotetError as error:\n    print(error)\n"
        "print(motet.run(**tiny).method)\n"
    )
    done = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True, timeout=120)
    first, second = done.stdout.splitlines()
    assert first.startswith("engine.name is 'pool', but method 'mine' is defined in the script that was called")
    assert (second, done.stderr) == ("mine", "")
    assert not Path("forced").exists()
