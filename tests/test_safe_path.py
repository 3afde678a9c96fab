"""A folder with data or a run from a stranger may hold a `pickle.py` too: no process of ours imports it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from own_tables import rows_of, write_csv
from test_foreign_folders import StopsAfterTwo

from motet.io.plugins import find_file
from motet.runs import run as runs
from motet.testing.twin import tiny

EVIL = "from pathlib import Path\nPath(__file__).with_name('executed').open('a').write(__name__)\n"
NAMES = ("pickle", "random", "json", "threading", "socket", "struct", "tempfile", "queue", "subprocess", "numbers")
SCRIPT = "import sys\nfrom motet.cli import main\n\nif __name__ == '__main__':\n    sys.exit(main())\n"


@pytest.fixture
def motet(tmp_path: Path) -> list[str]:
    """The command as pip installs it: a script in a folder of its own, which Python looks in first."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "motet").write_text(SCRIPT)
    return [sys.executable, str(tmp_path / "bin" / "motet")]


def with_code_beside_it(folder: Path) -> Path:
    for name in NAMES:
        (folder / f"{name}.py").write_text(EVIL)
    return folder


def used(words: list[str], folder: Path) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=300)
    assert not (folder / "executed").exists(), (folder / "executed").read_text()
    return done


@pytest.mark.slow
def test_a_foreign_run_that_asks_for_the_pool_is_resumed_without_the_code_beside_it(
    tmp_path: Path, motet: list[str]
) -> None:
    """F1 of the review: workers and the resource tracker started with the current folder first on their path."""
    asked = tiny("fedavg", engine={"name": "pool", "workers": 2}, checkpoint={"every": 1})
    with pytest.raises(KeyboardInterrupt):
        runs.run(asked, tmp_path / "theirs", StopsAfterTwo())
    folder = with_code_beside_it(Path(shutil.copytree(tmp_path / "theirs", tmp_path / "foreign")))
    done = used([*motet, "resume", "."], folder)
    assert done.returncode == 0, done.stderr
    assert (folder / "summary.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize("way", ["command", "python -m"])
def test_code_beside_a_table_does_not_run_in_the_processes_of_a_comparison(
    way: str, tmp_path: Path, motet: list[str]
) -> None:
    (tmp_path / "data").mkdir()
    folder = with_code_beside_it(tmp_path / "data")
    write_csv(rows_of("wine"), folder / "patients.csv")
    words = [*motet] if way == "command" else [sys.executable, "-m", "motet"]
    asked = ["compare", "patients.csv", "--label", "kind", "--client", "site", "--methods", "local,fedavg"]
    less = ["--trials", "1", "--seeds", "1", "--rounds", "2", "--epochs", "1", "--jobs", "2", "--out", "out"]
    done = used([*words, *asked, *less], folder)
    assert done.returncode == 0, done.stderr


def test_a_look_for_a_module_leaves_pythons_path_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether code is trusted is asked before; else an optional import of ours would find a file of the folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "theirs.py").write_text("")
    before = list(sys.path)
    assert find_file("theirs:Name") == tmp_path / "theirs.py"
    assert sys.path == before
