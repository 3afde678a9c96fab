"""A run folder from somebody else: what is wrong in it is a sentence or a fall-back, and nothing outside changes."""

import hashlib
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from folder_attacks import Attack, attacks

import motet
from motet.cli import main
from motet.config.experiment import Experiment
from motet.errors import MotetError
from motet.runs import run as runs
from motet.testing.twin import tiny

EVIL = "from pathlib import Path\nPath(__file__).with_name('executed').write_text('1')\n"
ALL = attacks()
EVERY = 23  # of them is tried in the usual suite, beside those that are known to have hurt
KNOWN = (
    "lock is a link",
    "checkpoint is a folder link",
    "server named '../../canary/victim.safetensors'",
    "client named '../../canary/victim.safetensors'",
    "checkpoint/.000003.json.tmp is a link",
    "manifest round is nan",
    "a manifest is deep",
    "checkpoint/{manifest} is a pipe",
    "summary.json is a pipe",
    "rounds.jsonl is a link",
    "rounds.jsonl is a hard link",
    "server state: short weights",
    "client state: another field",
    "seconds of rounds.jsonl is large",
    "bytes_up of rounds.jsonl is large",
    "personal.split.accuracy of clients.jsonl is large",
    "reported rule is text",
    "experiment: import",
    "experiment: import a net",
)
SHORT = sorted({*KNOWN, *list(ALL)[::EVERY]})


class StopsAfterTwo:
    """A watcher that ends a run as Ctrl-C does."""

    def started(self, experiment: Experiment, folder: Path, round: int, warning: str | None) -> None:
        """Nothing to do."""

    def round(self, row: dict[str, object]) -> None:
        """Stop."""
        if row["round"] == 2:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A finished run and one that was stopped in the middle, with private states."""
    parent = tmp_path_factory.mktemp("real")
    asked = tiny("scaffold", engine={"name": "inline"}, checkpoint={"every": 1}, scoring={"every": 1})
    finished = runs.run(asked, parent / "finished")
    with pytest.raises(KeyboardInterrupt):
        runs.run(asked, parent / "stopped", StopsAfterTwo())
    return {"finished": finished, "stopped": parent / "stopped"}


def canary_tree(folder: Path) -> Path:
    (folder / "inner").mkdir(parents=True)
    (folder / "precious.txt").write_text("precious\n")
    (folder / "victim.safetensors").write_bytes(b"precious")
    (folder / "inner" / ".half.tmp").write_text("1")
    (folder / ".half.tmp").write_text("1")
    (folder / "evil.py").write_text(EVIL)
    return folder


def look(folder: Path) -> dict[str, tuple[int, str]]:
    """All that is in a tree, without following links or reading pipes."""
    found = {}
    for at, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(at, name)
            state = path.lstat()
            plain = path.is_file() and not path.is_symlink() and state.st_size < 2**24
            digest = hashlib.sha256(path.read_bytes()).hexdigest() if plain else ""
            found[str(path.relative_to(folder))] = (state.st_mode, digest)
    return found


class TookTooLong(BaseException):
    """Not an Exception, and no OSError as TimeoutError is: what reads files must not take it for a damaged one."""


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    def late(*_: object) -> None:
        raise TookTooLong(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def by_command(*words: str, out: str = "") -> Callable[[Path, pytest.CaptureFixture[str]], bool]:
    def work(folder: Path, capsys: pytest.CaptureFixture[str]) -> bool:
        code = main([*words, str(folder), *(["--out", str(folder / out)] if out else [])])
        said = capsys.readouterr().err
        assert code in (0, 2), said
        last = (said.splitlines() or [""])[-1]
        assert code == 0 or (last.startswith("error: ") and len(last) < 600), said
        return code == 0

    return work


def serving(folder: Path, capsys: pytest.CaptureFixture[str]) -> bool:
    try:
        result = motet.load(folder)
        assert repr(result) and isinstance(result.rounds, list) and isinstance(result.clients, list)
        assert isinstance(result.figures_learned, list)
        result.generic_model()
        result.personal_model(0)
    except MotetError as error:
        assert len(str(error)) < 600
        return False
    return True


WORK: dict[str, tuple[str, Callable[[Path, pytest.CaptureFixture[str]], bool]]] = {
    "show": ("finished", by_command("show")),
    "report": ("finished", by_command("report", out="page.html")),
    "serve": ("finished", serving),
    "resume": ("stopped", by_command("resume")),
}


def attacked(attack: Attack, of: Path, tmp_path: Path) -> tuple[Path, Path]:
    canary, folder = canary_tree(tmp_path / "canary"), tmp_path / "runs" / "foreign"
    shutil.copytree(of, folder)
    attack(folder, canary)
    return folder, canary


def stands(
    attack: Attack, work: str, real: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    which, do = WORK[work]
    folder, canary = attacked(attack, real[which], tmp_path)
    before, lines = look(canary), _lines(folder)
    with at_most(60):
        refused = not do(folder, capsys)
    assert look(canary) == before
    assert sorted(p.name for p in tmp_path.iterdir() if p.name != "gone") == ["canary", "runs"]
    for name, text in _lines(folder).items() if refused else ():  # a fall-back does its rounds anew
        kept = lines[name].startswith(text) or text.count(b"\n") >= lines[name].count(b"\n") if name in lines else True
        assert kept, f"{name} has lost lines"
    shutil.rmtree(tmp_path / "runs")
    shutil.rmtree(canary)


def _lines(folder: Path) -> dict[str, bytes]:
    found = {}
    for name in ("rounds.jsonl", "clients.jsonl"):
        path = folder / name
        if path.is_file() and not path.is_symlink() and path.stat().st_size < 2**24:
            found[name] = path.read_bytes()
    return found


@pytest.mark.parametrize("work", WORK)
@pytest.mark.parametrize("name", SHORT)
def test_a_foreign_folder_harms_nobody(
    name: str, work: str, real: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stands(ALL[name], work, real, tmp_path, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("work", WORK)
@pytest.mark.parametrize("name", sorted(ALL))
def test_no_foreign_folder_harms_anybody(
    name: str, work: str, real: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stands(ALL[name], work, real, tmp_path, capsys)


@pytest.mark.parametrize(
    "name", ["summary figures is text", "summary.json is deep", "summary.json is a pipe", "summary without reported"]
)
def test_a_bad_summary_breaks_only_its_own_run(
    name: str, real: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = attacked(ALL[name], real["finished"], tmp_path)
    shutil.copytree(real["finished"], tmp_path / "runs" / "good")
    assert main(["show", str(tmp_path / "runs"), "--json"]) == 0
    out, err = capsys.readouterr()
    assert len(json.loads(out)) == 1 and "left out: " in err and str(folder) in err.replace("\n", "")


def test_the_canary_would_sing(tmp_path: Path) -> None:
    """The tree that is looked at shows every kind of harm."""
    canary = canary_tree(tmp_path / "canary")
    before = look(canary)
    for harm in (
        lambda: (canary / "precious.txt").write_text(""),
        lambda: (canary / ".half.tmp").unlink(),
        lambda: (canary / "new-file").write_text(""),
        lambda: exec(compile(EVIL, str(canary / "evil.py"), "exec"), {"__file__": str(canary / "evil.py")}),
    ):
        harm()
        assert look(canary) != before
        before = look(canary)
