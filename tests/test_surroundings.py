"""What a process is started with and what happens to it: closed and full outputs, locales, widths, signals."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from motet.cli import main
from motet.runs.checkpoint import Checkpoints
from motet.runs.record import Record

MOTET = f"{sys.executable} -m motet"
TINY = "run --clients 4 --rounds 1 --epochs 1 --out out"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def shell(words: str, seconds: float = 120, **surroundings: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["/bin/sh", "-c", f"{MOTET} {words}"],
        capture_output=True,
        text=True,
        timeout=seconds,
        env={**os.environ, **surroundings},
    )


@pytest.mark.slow
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_outputs_that_are_closed(closed: str) -> None:
    """They were exit code 70, and a file of the run would have had the number of stdout."""
    done = shell(f"{TINY} {closed}")
    assert done.returncode == 0 and "bug" not in done.stderr
    assert Record(Path("out")).finished
    assert ("Recorded in out" in done.stdout) == (">&-" not in closed.replace("2>&-", ""))
    refused = shell(f"run --nope {closed}")
    assert refused.returncode == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    "words",
    [
        "--help",
        "--version",
        "list nets --json",
        *(pytest.param(words, marks=pytest.mark.slow) for words in ("list nets", "data show digits --clients 4")),
    ],
)
def test_an_output_that_is_full(words: str) -> None:
    done = shell(f"{words} > /dev/full")
    assert done.returncode == 2
    assert done.stderr.splitlines() == ["error: standard output: No space left on device"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_message_that_finds_no_room_leaves_the_code() -> None:
    assert shell("run --nope 2> /dev/full").returncode == 2


@pytest.mark.parametrize("columns", ["1000000000", "9" * 30, "0", "1", "-5", "x", ""])
def test_any_width(columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A billion columns were filled one by one."""
    monkeypatch.setenv("COLUMNS", columns)
    assert main(["list", "nets"]) == 0
    out = capsys.readouterr().out
    assert "cnn4" in out and max(map(len, out.splitlines())) <= 1000


def test_a_locale_that_knows_ascii_alone() -> None:
    ascii_alone = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for words in ("run --method fedävg", "run --data ä.csv", "show läng", f"{TINY}ü"):
        done = shell(words, **ascii_alone)
        assert done.returncode == 2
        (said,) = done.stderr.splitlines()
        assert "is no text in this locale; accepted: UTF-8" in said and "PYTHONUTF8=1" in said
    Path("höhe").mkdir()
    os.chdir("höhe")
    Path("mine.py").write_text("from motet.methods.base import Part\n\n\nclass Mine(Part):\n    pass\n")
    done = shell(f"{TINY} --method mine.py:Mine", **ascii_alone)
    assert done.returncode == 0, done.stderr


def test_bytes_that_are_no_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", os.fsdecode(b"\xff\xfe")]) == 2
    assert "is no text in this locale" in capsys.readouterr().err


# ---------------------------------------------------------------- signals

ENDS = {signal.SIGTERM: 143, signal.SIGHUP: 129}
LONG = ["run", "--clients", "6", "--rounds", "500", "--epochs", "1", "--set", "checkpoint.every=1", "--out", "out"]


def ended(number: signal.Signals, engine: str, after: float | None, whole_group: bool) -> tuple[int, str]:
    """The exit code and the messages of a run that got the signal after some seconds, or else after two rounds."""
    words = [sys.executable, "-m", "motet", *LONG, "--set", f"engine.name={engine}"]
    with subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            rounds, until = Path("out/rounds.jsonl"), time.monotonic() + (60 if after is None else after)
            while time.monotonic() < until:
                if after is None and rounds.exists() and rounds.read_bytes().count(b"\n") >= 2:
                    break
                time.sleep(0.01)
            os.killpg(process.pid, number) if whole_group else process.send_signal(number)
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
    return process.returncode, err


@pytest.mark.parametrize("engine", ["inline", pytest.param("pool", marks=pytest.mark.slow)])
@pytest.mark.parametrize("number", ENDS)
def test_a_signal_to_everybody_ends_a_run_that_can_go_on(number: signal.Signals, engine: str) -> None:
    """SIGHUP, which a terminal sends to all of them, ended in a ConnectionResetError of a worker."""
    code, err = ended(number, engine, None, whole_group=True)
    assert code == ENDS[number]
    assert err.splitlines()[-1] == "stopped; continue with `motet resume out`" and "Traceback" not in err
    assert not Record(Path("out")).finished
    assert Checkpoints(Path("out/checkpoint")).recorded_extra()


@pytest.mark.parametrize("number", ENDS)
@pytest.mark.parametrize("tenth", (4, 12))
def test_a_signal_in_the_first_moments(number: signal.Signals, tenth: int) -> None:
    """While libraries are imported it was taken for Ctrl-C (130)."""
    code, err = ended(number, "inline", tenth / 10, whole_group=False)
    assert code in (ENDS[number], -number), err  # the second: before Motet itself began
    assert "Traceback" not in err and "bug" not in err


IMPORTING = """
import os, signal, sys
from motet.cli.process import ended_by_signals

sys.path.insert(0, os.getcwd())
with ended_by_signals():
    try:
        import slow_to_import
        signal.pause()
    except KeyboardInterrupt as error:
        print(slow_to_import.whole, type(error).__name__)
"""


@pytest.mark.parametrize("number", (signal.SIGINT, *ENDS))
def test_an_import_is_not_broken_off(number: signal.Signals) -> None:
    """An exception that comes out of one ended the process by std::terminate, with words of pybind11's."""
    Path("slow_to_import.py").write_text(
        f"import os, time\nos.kill(os.getpid(), {int(number)})\ntime.sleep(0.1)\nwhole = True\n"
    )
    done = subprocess.run([sys.executable, "-c", IMPORTING], capture_output=True, text=True, timeout=60)
    expected = "KeyboardInterrupt" if number == signal.SIGINT else "Terminated"
    assert (done.stdout, done.stderr) == (f"True {expected}\n", "")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_signals_at_random_moments(seed: int) -> None:
    rng = random.Random(seed)
    number, engine = rng.choice(list(ENDS)), rng.choice(["inline", "pool", "auto"])
    code, err = ended(number, engine, rng.uniform(0, 12), whole_group=rng.random() < 0.5)
    assert code in (ENDS[number], -number), err
    assert "Traceback" not in err and "bug" not in err


@pytest.mark.slow
def test_nohup_stays_nohup() -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", f"trap '' HUP; {MOTET} {TINY} & sleep 3; kill -HUP $!; wait $!"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and Record(Path("out")).finished
