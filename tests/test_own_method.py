"""A user's method in a single file: from the command line, in worker processes, resumed, in a sum, with its options."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import motet
from motet.config.experiment import resolve
from motet.errors import MotetError
from motet.runs.run import resume, run
from motet.testing.twin import TINY, last_states

MINE = '''
from motet.methods import MethodEntry, Part

class Mine(Part):
    """Every step is pulled towards what the server sent."""

    mu: float = 0.1

    def correct(self, t):
        t.g_shared.add_(t.shared - t.anchor, alpha=self.mu)

    def after(self, t, reply):
        t.client.private["mine.moved"] = t.shared - t.anchor

ENTRY = MethodEntry("anything", "named", "nobody", part=Mine)
number = 3
broken = 1 / 1
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))  # an import leaves its folder there
    yield tmp_path
    sys.modules.pop("mine", None)


def command(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-m", "motet", *words], cwd=folder, capture_output=True, text=True)


@pytest.mark.slow
def test_from_the_command_line_in_worker_processes(folder: Path) -> None:
    words = ["run", "--rounds", "2", "--clients", "4", "--json", "--set", "local.batched_clients=false"]
    ours = command(folder, *words, "--method", "./mine.py:Mine(mu=0.5)+ft", "--set", "engine.name=pool", "--out", "a")
    assert ours.returncode == 0, ours.stderr
    known = command(folder, *words, "--method", "fedprox(mu=0.5)+ft", "--set", "engine.name=inline", "--out", "b")
    assert json.loads(ours.stdout)["generic"] == json.loads(known.stdout)["generic"]  # Mine is FedProx
    assert json.loads(ours.stdout)["method"] == "./mine.py:Mine(mu=0.5)+ft"
    shown = command(folder, "show", "a")
    assert shown.returncode == 0 and "mine.py:Mine" in shown.stdout


class Stops:
    """Ctrl-C after the first round."""

    def started(self, *words: object) -> None: ...

    def round(self, row: dict[str, object]) -> None:
        raise KeyboardInterrupt


@pytest.mark.parametrize("name", ["mine.py:Mine", "mine:Mine", "mine.py:ENTRY"])
def test_stopped_and_resumed(folder: Path, name: str) -> None:
    asked = resolve(TINY | {"method": name})
    with pytest.raises(KeyboardInterrupt):
        run(asked, folder / "run", Stops())
    resume(folder / "run")
    assert last_states(folder / "run") == last_states(run(asked, folder / "whole"))


def test_in_python_and_by_class_names_alone(folder: Path) -> None:
    result = motet.run(method="mine.py:Mine", data="digits", clients=4, rounds=1, subset=0.3)
    assert result.method == "mine.py:Mine" and result.generic.accuracy > 0.1


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("mine.py:Yours", "has no 'Yours'; it has: Mine"),
        ("mine.py:number", "is a int; accepted: a class of Part or Method, or a MethodEntry"),
        ("other.py:Mine", "there is no file"),
        ("mine.py:Mine(nu=1)", "nu"),
        ("mine.py:Mine+mine.py:Mine", "twice"),
        ("local+mine.py:Mine", "local shares no weights, so mine.py:Mine has nothing to act on"),
    ],
)
def test_mistakes_are_sentences(folder: Path, name: str, sentence: str) -> None:
    with pytest.raises(MotetError) as caught:
        motet.run(method=name, data="digits", clients=4, rounds=1)
    assert sentence in str(caught.value) and "\n" not in str(caught.value)
