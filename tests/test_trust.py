"""Code that a run folder names: the user's own runs again without a word, anybody else's only if he says so."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import motet
from motet.cli import main
from motet.config.experiment import Experiment, resolve
from motet.errors import MotetError
from motet.io.plugins import find_file
from motet.runs import run as runs
from motet.runs import trust
from motet.testing.twin import tiny

CODE = """
from pathlib import Path
from motet.methods.base import Part
with Path(__file__).with_name("executed").open("a") as file:
    file.write("once\\n")

class Mine(Part):
    '''Does nothing.'''
"""


class Stops:
    """A watcher that ends a run after its first round."""

    def started(self, experiment: Experiment, folder: Path, round: int, warning: str | None) -> None:
        """Nothing to do."""

    def round(self, row: dict[str, object]) -> None:
        """Stop."""
        raise KeyboardInterrupt


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project with a method of its own, and a user who ran nothing yet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(sys.path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(trust, "_in_this_process", set())
    (tmp_path / "mine.py").write_text(CODE)
    yield tmp_path


def stopped(folder: str = "run", **changes: Any) -> Path:
    with pytest.raises(KeyboardInterrupt):
        runs.run(tiny("mine.py:Mine", engine={"name": "inline"}, **changes), Path(folder), Stops())
    return Path(folder)


def forget(here: Path) -> None:
    """Another user, or another machine."""
    shutil.rmtree(here / "state", ignore_errors=True)
    trust._in_this_process.clear()


def test_what_a_user_ran_himself_goes_on_without_a_word(here: Path) -> None:
    folder = stopped()
    trust._in_this_process.clear()  # another process of the same user
    runs.resume(folder)
    assert motet.load(folder).generic_model() is not None


def test_a_foreign_folder_runs_no_code(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = stopped()
    shutil.copytree(folder, "foreign")
    runs.resume(folder)
    forget(here)
    (here / "executed").unlink()
    assert main(["show", "run"]) == 0
    assert motet.load("run").summary.method == "mine.py:Mine"
    assert main(["resume", "foreign"]) == 2
    said = capsys.readouterr().err
    assert f"run foreign would run code of {here / 'mine.py'}, which you did not run yourself as it is now" in said
    assert "--trust-code" in said
    with pytest.raises(MotetError, match="trust_code=True"):
        motet.load("run").generic_model()
    with pytest.raises(MotetError, match="trust_code=True"):
        motet.resume("foreign")
    assert not (here / "executed").exists()


def test_one_word_is_enough(here: Path) -> None:
    folder = stopped()
    forget(here)
    assert main(["resume", str(folder), "--trust-code"]) == 0
    assert motet.load(folder, trust_code=True).generic_model() is not None
    with pytest.raises(MotetError, match="trust_code"):  # it was said for that time
        motet.load(folder).generic_model()


def test_code_that_changed_or_moved_is_other_code(here: Path) -> None:
    folder = stopped()
    (here / "mine.py").write_text(CODE + "\n# changed\n")
    with pytest.raises(MotetError, match="as it is now"):
        runs.resume(folder)
    (here / "elsewhere").mkdir()
    (here / "elsewhere" / "mine.py").write_text(CODE)
    file = folder / "experiment.toml"
    file.write_text(file.read_text().replace("mine.py:Mine", "elsewhere/mine.py:Mine"))
    with pytest.raises(MotetError, match=r"elsewhere/mine\.py"):
        runs.resume(folder)


def test_code_that_is_not_there_cannot_run(here: Path) -> None:
    folder = stopped()
    forget(here)
    (here / "mine.py").unlink()
    with pytest.raises(MotetError, match=r"there is no file .*mine\.py"):
        runs.resume(folder)


@pytest.mark.parametrize(
    "asked",
    [
        {"method": "fedavg+mine.py:Mine"},
        {"net": {"name": "mine.py:Mine"}},
        {"data": {"name": "mine.py:Mine"}},
        {"scoring": {"metrics": ["ece", "mine.py:Mine"]}},
    ],
)
def test_every_field_that_can_name_code_is_known(here: Path, asked: dict[str, Any]) -> None:
    experiment = resolve(asked)
    assert trust.imports_of(experiment) == ["mine.py:Mine"]
    with pytest.raises(MotetError, match="would run code"):
        trust.require_trust(experiment, here, said=False)
    trust.remember(experiment)
    trust.require_trust(experiment, here, said=False)
    assert not (here / "executed").exists()


def test_the_file_of_a_module_is_found_without_running_it(here: Path) -> None:
    (here / "pack").mkdir()
    (here / "pack" / "__init__.py").write_text("raise RuntimeError('executed')")
    (here / "pack" / "inner.py").write_text("raise RuntimeError('executed')")
    assert find_file("pack:X") == here / "pack" / "__init__.py"
    assert find_file("pack.inner:X") == here / "pack" / "inner.py"
    assert find_file("mine:Mine") == here / "mine.py"
    assert find_file("nowhere:X") is find_file("pack.nowhere:X") is find_file("nowhere.py:X") is None


def test_where_nothing_can_be_remembered_a_run_still_runs(here: Path) -> None:
    (here / "state").write_text("a file in the way")
    folder = stopped()
    runs.resume(folder)  # this process remembers
