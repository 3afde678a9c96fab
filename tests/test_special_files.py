"""What is no file is not replaced by one, and what leads out of a study's folder is not followed."""

import os
import shutil
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from test_foreign_folders import look

import motet
from motet.cli import main
from motet.errors import MotetError
from motet.io.files import write_atomic


def device(path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root makes device nodes")
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))  # as /dev/null is
    except PermissionError:
        pytest.skip("this container makes no device nodes")


def bound(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as each:
        here = os.open(path.parent, os.O_RDONLY)
        try:  # the name of a socket is short
            os.chdir(here)
            each.bind(path.name)
        finally:
            os.close(here)


SPECIAL: dict[str, tuple[str, Callable[[Path], object]]] = {
    "pipe": ("a pipe", os.mkfifo),
    "device": ("a device or socket", device),
    "socket": ("a device or socket", bound),
    "folder": ("a folder", Path.mkdir),
    "link": ("a link", lambda path: path.symlink_to("elsewhere")),
}


@pytest.mark.parametrize("kind", SPECIAL)
def test_what_is_no_file_is_not_replaced(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F3 of the review: as root, a rename over /dev/null left a file in its place."""
    monkeypatch.chdir(tmp_path)
    words, make = SPECIAL[kind]
    make(tmp_path / "out")
    before = os.lstat(tmp_path / "out")
    with pytest.raises(MotetError, match=f"cannot write .*out: it is {words}; accepted: a file, or a name"):
        write_atomic(tmp_path / "out", b"whole")
    after = os.lstat(tmp_path / "out")
    assert (after.st_ino, stat.S_IFMT(after.st_mode)) == (before.st_ino, stat.S_IFMT(before.st_mode))
    assert not (tmp_path / "elsewhere").exists() and not list(tmp_path.glob(".*"))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("special")
    motet.run(clients=4, rounds=1, epochs=1, out=folder / "run").export(folder / "ex", generic=True)
    return folder


@pytest.mark.parametrize("command", ["report", "predict", "bench", "schema"])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_commands_that_write_a_file(
    command: str,
    kind: str,
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    SPECIAL[kind][1](tmp_path / "out")
    (tmp_path / "x.csv").write_text("a,kind\n" + "1,x\n2,y\n" * 200)
    (tmp_path / "bench.toml").write_text('name = "b"\nfigures = ["generic.accuracy"]\nsetting = {rounds = 1}\n')
    np.savez(tmp_path / "x.npz", x=np.zeros((2, 8, 8, 1), np.uint8))
    words = {
        "report": ["report", str(run / "run"), "--out", "out"],
        "predict": ["predict", str(run / "ex"), "x.npz", "--out", "out"],
        "bench": ["bench", "bench.toml", "--record", "out", "--out", "study"],
        "schema": [
            "data",
            "schema",
            "x.csv",
            "--label",
            "kind",
            "--clients",
            "2",
            "--partition",
            "iid",
            "--out",
            "out",
        ],
    }[command]
    assert main(words) == 2
    assert f"it is {SPECIAL[kind][0]}; accepted: a file" in capsys.readouterr().err
    assert not stat.S_ISREG(os.lstat("out").st_mode)
    assert not Path("study").exists()


# ---------------------------------------------------------------- studies in folders with links

LESS = ["--clients", "4", "--rounds", "1", "--epochs", "1", "--jobs", "1", "--out", "study"]
STUDIES = {
    "compare": ["compare", "digits", "--methods", "fedavg", "--trials", "1", "--seeds", "1", *LESS],
    "tune": ["tune", "digits", "--methods", "fedavg", "--trials", "1", *LESS],
    "bench": ["bench", "bench.toml", "--jobs", "1", "--out", "study"],
}
BENCH = 'name = "b"\nfigures = ["generic.accuracy"]\nseeds = [0]\nsetting = {rounds = 1, clients = 4, epochs = 1}\n'


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Studies of which nothing but what was asked is there."""
    folder = tmp_path_factory.mktemp("begun")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        Path("bench.toml").write_text(BENCH)
        for name, words in STUDIES.items():
            assert main(words) == 0
            Path("study").rename(name)
    return folder


@pytest.mark.parametrize(
    ("study", "place"),
    [
        ("compare", "runs"),
        ("compare", "runs/fedavg-seed0"),
        ("compare", "tuning"),
        ("compare", "tuning/fedavg"),
        ("compare", "tuning/fedavg/trial-0"),
        ("tune", "tuning"),
        ("tune", "tuning/fedavg"),
        ("bench", "runs"),
    ],
)
def test_a_study_does_not_go_on_through_a_link(
    study: str,
    place: str,
    begun: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """F7 of the review: what was computed went to where the link led."""
    monkeypatch.chdir(tmp_path)
    Path("bench.toml").write_text(BENCH)
    shutil.copytree(begun / study, "study")
    shutil.rmtree(Path("study") / place)
    Path("precious/deep").mkdir(parents=True)
    (Path("study") / place).symlink_to(tmp_path / "precious" / "deep")
    before = look(Path("precious"))
    assert main(STUDIES[study]) == 2
    assert f"{Path('study') / place} is a link; accepted: " in capsys.readouterr().err
    assert look(Path("precious")) == before
