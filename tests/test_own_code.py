"""An error in the user's own code is his: its traceback is shown whole, with file and line, wherever it arose."""

import json
import subprocess
import sys
from itertools import product
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import pytest

import motet
from motet.cli import main
from motet.io.user_code import InAnotherProcess

MINE = """
import numpy as np
from torch import nn
from motet.methods.base import Part
from motet.data.readers.registry import from_arrays


class Odd(Exception):
    def __init__(self, text, number):
        super().__init__(text, number)


class Trains(Part):
    acts = "correction"

    def correct(self, t):
        raise Odd("train", 7)  # train


class Aggregates(Part):
    acts = "server"

    def aggregate(self, s, replies):
        raise KeyError("aggregate")  # aggregate


class Leaves(Part):
    def correct(self, t):
        raise SystemExit(3)  # leave


class Net(nn.Module):
    def __init__(self, input, classes, split):
        super().__init__()
        self.head = nn.Linear(64, classes)

    def forward(self, x):
        if self.training:
            raise ValueError("forward")  # forward
        return self.head(x.flatten(1))


class Never(Net):
    def forward(self, x):
        return 1 / 0  # never


def source(download):
    raise FileNotFoundError("source")  # source
"""
TINY = ["--clients", "4", "--rounds", "2", "--epochs", "1", "--cohort", "1.0"]
WRONG: dict[str, tuple[list[str], str]] = {
    "train": (["--method", "mine.py:Trains"], "Odd: "),
    "aggregate": (["--method", "mine.py:Aggregates"], "KeyError: 'aggregate'"),
    "leave": (["--method", "mine.py:Leaves"], "SystemExit: 3"),
    "forward": (["--net", "mine.py:Net", "--head", "head"], "ValueError: forward"),
    "never": (["--net", "mine.py:Never", "--head", "head"], "ZeroDivisionError: division by zero"),
    "source": (["--data", "mine.py:source"], "FileNotFoundError: source"),
}
ENGINES = {
    "inline": ["--set", "engine.name=inline"],
    "pool": ["--set", "engine.name=pool", "--set", "engine.workers=2"],
}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MINE)


def line_of(what: str) -> str:
    """As a traceback and a sentence name it."""
    return f"line {next(i for i, line in enumerate(MINE.splitlines(), 1) if line.endswith(f'# {what}'))}"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("what", WRONG)
def test_a_run_shows_the_users_own_traceback(what: str, engine: str, capfd: pytest.CaptureFixture[str]) -> None:
    words, error = WRONG[what]
    assert main(["run", *words, *TINY, *ENGINES[engine], "--out", "out"]) == 1
    err = capfd.readouterr().err
    *trace, last = err.splitlines()
    place = f'{Path.cwd() / "mine.py"}", {line_of(what)}'
    assert "Traceback (most recent call last):" in err and place in "\n".join(trace)
    assert f"# {what}" in "\n".join(trace)  # the line itself
    assert last.startswith("error: your own code raised ") and error in last and line_of(what) in last
    assert "engine.name=inline" in last and "breakpoint()" in last
    assert "bug of Motet's" not in err


@pytest.mark.parametrize(
    ("jobs", "what"),
    [
        *product("1", ("train", "aggregate", "forward")),
        ("2", "train"),
        *(pytest.param("2", what, marks=pytest.mark.slow) for what in ("aggregate", "forward")),
    ],
)
def test_a_study_shows_it_too(what: str, jobs: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Of a study of which nothing is left the code is 1 as well."""
    words = [word for word in WRONG[what][0] if word != "--method"]
    methods = words.pop() if what != "forward" else "fedavg"
    less = ["--trials", "1", "--seeds", "1", "--jobs", jobs, "--out", "out"]
    assert main(["compare", "digits", *words, "--methods", methods, *TINY, *less]) == 1
    err = capfd.readouterr().err
    assert "Traceback (most recent call last):" in err and f'mine.py", {line_of(what)}' in err
    last = err.splitlines()[-1]
    assert "your own code raised" in last and WRONG[what][1].split(":")[0] in last and line_of(what) in last
    assert "bug of Motet's" not in err


@pytest.mark.parametrize("what", ["train", "aggregate", "forward"])
@pytest.mark.parametrize("engine", ENGINES)
def test_python_gets_the_error_itself(what: str, engine: str) -> None:
    words: dict[str, Any] = (
        {"net": "mine.py:Net", "head": "head"} if what == "forward" else {"method": WRONG[what][0][1]}
    )
    with pytest.raises(Exception) as caught:
        motet.run(**words, clients=4, rounds=2, epochs=1, cohort=1.0, set={"engine.name": engine, "engine.workers": 2})
    error, kind = caught.value, WRONG[what][1].split(":")[0]
    assert type(error).__name__ == kind
    if what == "train":
        assert error.args == ("train", 7)
    if engine == "pool" and what != "aggregate":
        assert isinstance(error.__cause__, InAnotherProcess)
        assert f'mine.py", {line_of(what)}' in str(error.__cause__)


def test_a_named_module_is_the_users_wherever_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "site-packages").mkdir()
    Path("mine.py").rename(tmp_path / "site-packages" / "their_methods.py")
    monkeypatch.syspath_prepend(str(tmp_path / "site-packages"))
    assert main(["run", "--method", "their_methods:Trains", *TINY, *ENGINES["inline"], "--out", "out"]) == 1
    assert "their_methods.py, line" in capfd.readouterr().err.splitlines()[-1]


def test_a_file_that_cannot_be_imported_names_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    Path("broken.py").write_text("import math\n\nmath.nothing\n")
    assert main(["run", "--method", "broken.py:Mine", *TINY]) == 2
    assert "broken.py, line 3" in capsys.readouterr().err


@pytest.mark.slow
def test_a_script_that_calls_the_pool_sees_the_workers_traceback() -> None:
    asked = dict(method="mine.py:Trains", clients=4, rounds=1, epochs=1, set={"engine.name": "pool"})
    Path("script.py").write_text(f"import json, motet\nmotet.run(**json.loads({json.dumps(json.dumps(asked))}))\n")
    done = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert f'mine.py", {line_of("train")}' in done.stderr
    assert done.stderr.splitlines()[-1].endswith("Odd: ('train', 7)")


# ---------------------------------------------------------------- measures cost their figure, not the run

MEASURE = """
def sometimes(logits, y):
    if len(y) % 2:
        raise ValueError("odd")  # measure
    return float(len(y))


def always(logits, y):
    raise ValueError("always")  # always
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_a_measure_that_raises_costs_its_figure_alone(engine: str, capfd: pytest.CaptureFixture[str]) -> None:
    """S12 of the review: it ended the run."""
    forkserver._forkserver._stop()  # workers write to the stderr of when their server began, which pytest has replaced
    Path("measures.py").write_text(MEASURE)
    words = ["--metrics", "measures.py:always", "--metrics", "measures.py:sometimes", "--out", "out"]
    assert main(["run", *TINY, *ENGINES[engine], *words]) == 0
    err = capfd.readouterr().err
    assert 'measures.py", line 9, in always' in err and "ValueError: always" in err
    result = motet.load("out")
    notes = result.summary["notes"]
    assert any("measures.py:always raised an error at 4 of 4 clients" in note for note in notes)
    assert any("measures.py:always raised an error on the common test set" in note for note in notes)
    assert not any(".always." in name for name in result.figures) and "personal.split.accuracy.mean" in result.figures
    assert main(["show", "out"]) == 0
    shown = " ".join(capfd.readouterr().out.split())
    assert "Note: metric measures.py:always raised an error at 4 of 4 clients" in shown


def test_measures_without_data_say_so(capfd: pytest.CaptureFixture[str]) -> None:
    """S12: with data.test_share = 0 they were empty, or a matrix without a number, without a word."""
    words = ["--method", "fedrod", "--set", "data.test_share=0", "--metrics", "calibration", "--metrics", "confusion"]
    assert main(["run", *TINY, *words, "--out", "out"]) == 0
    result = motet.load("out")
    said = "confusion: no client has test data of its own (data.test_share = 0)"
    assert result.summary["notes"] == [said, "options that were auto: fedrod.hidden = 16"]
    drawn = {picture["name"]: picture["series"][0]["values"] for picture in result.figures_learned}
    assert all(value is not None for row in drawn["cross-client-personal"] for value in row)
    assert "calibration-personal" in drawn and result.figures["personal.weighted.calibration.pooled"] is not None
    assert "confusion: no client has test data" in capfd.readouterr().err
