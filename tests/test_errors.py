"""Wrong input of every kind through the command line: one clear sentence, exit code 2, no traceback."""

import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import motet
from motet.cli import main
from motet.io.locks import FolderLock
from motet.runs.checkpoint import FORMAT, _checksum
from motet.runs.record import Record

TINY = ["--rounds", "2", "--clients", "6", "--epochs", "1", "--cohort", "0.5"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records go to a folder of the test's own."""
    monkeypatch.chdir(tmp_path)


def sentence(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one sentence that a refused command writes; it writes nothing to stdout."""
    code = main(words)
    out, err = capsys.readouterr()
    assert code == 2, (code, out, err)
    assert out == "" and len(err.splitlines()) == 1 and err.startswith("error: "), err
    return err.removeprefix("error: ").rstrip("\n")


def refuse(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The sentence about an experiment that never begins: nothing is left behind."""
    said = sentence(capsys, "run", *TINY, *words, "--out", "never")
    assert not Path("never").exists()
    return said


# ------------------------------------------------------------ words of the command line


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--method", "skaffold"], "unknown method 'skaffold': did you mean 'scaffold'? accepted: "),
        (["--method", "fedprox+skaffold"], "unknown method 'skaffold': did you mean 'scaffold'? accepted: "),
        (["--data", "digit"], "unknown data 'digit': did you mean 'digits'? accepted: "),
        (["--net", "cnn5"], "unknown net 'cnn5': did you mean 'cnn4'? accepted: "),
        (["--partition", "dirichlett:0.3"], "unknown partition 'dirichlett': did you mean 'dirichlet'? accepted: "),
        (["--protocol", "fedrodd"], "protocol is 'fedrodd'; accepted: motet | fedrod | "),
        (["--set", "local.lrr=1"], "unknown field in [local] 'lrr': did you mean 'lr'? accepted: "),
        (["--set", "engine.name=inlin"], "unknown engine (engine.name) 'inlin': did you mean 'inline'? accepted: "),
        (["--set", "net.head=fc9"], "unknown head stage (net.head) 'fc9': did you mean"),
        (["--set", "device=gpu"], "device is 'gpu' ("),
    ],
)
def test_unknown_names_come_with_the_nearest(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert refuse(capsys, *words).startswith(said)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--clients", "many"], "data.clients is 'many'; accepted: a whole number of at least 1"),
        (["--clients", "2.5"], "data.clients is 2.5; accepted: a whole number of at least 1"),
        (["--rounds", "0"], "rounds.count is 0; accepted: a whole number of at least 1"),
        (["--lr", "-1"], "local.lr is -1; accepted: a number above 0"),
        (["--lr", "nan"], "local.lr is nan; accepted: a number above 0"),
        (["--batch", "-1"], "local.batch is -1; accepted: a whole number of at least 0"),
        (["--new-clients", "1"], "data.new_clients is 1; accepted: a number of at least 0 and below 1"),
        (["--new-clients", "0.99"], "new_clients 0.99 leaves no training client of 6"),
        (["--cohort", "0"], "rounds.cohort is 0; accepted: a number above 0"),
        (["--cohort", "7"], "rounds.cohort is 7; accepted: a share up to 1, or a whole number up to the 6 clients"),
        (["--cohort", "2.5"], "rounds.cohort is 2.5; accepted: a share up to 1, or a whole number"),
        (["--partition", "dirichlet"], "partition 'dirichlet' has argument ''; accepted: dirichlet:ALPHA, a number"),
        (["--partition", "dirichlet:0"], "partition 'dirichlet' has argument '0'; accepted: dirichlet:ALPHA"),
        (["--partition", "shards:1.5"], "partition 'shards' has argument '1.5'; accepted: shards:SHARDS, a whole"),
        (["--partition", "iid:2"], "partition 'iid' takes no argument, not '2'; accepted: iid"),
        (["--method", "fedprox(mu=-1)"], "method fedprox: mu is -1; accepted: a number of at least 0"),
        (["--method", "fedprox(mu=big)"], "method fedprox: mu is 'big'; accepted: a number of at least 0"),
        (["--method", "fedprox(nu=1)"], "method fedprox: unknown field 'nu': "),
        (["--method", "fedprox(mu"], "method 'fedprox(mu' cannot be read ("),
        (["--method", ""], "method '' cannot be read ("),
        (["--set", "local.momentum=1"], "local.momentum is 1; accepted: a number of at least 0 and below 1"),
        (["--set", "local.momentum"], "--set is 'local.momentum'; accepted: key=value, such as local.lr=0.1"),
        (["--no-such-flag"], "No such option"),
    ],
)
def test_bad_values(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert refuse(capsys, *words).startswith(said)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--method", "ft"], "ft personalizes another method"),
        (["--method", "fedavg+ft+lp"], "ft and lp both personalize what the method serves"),
        (["--method", "scaffold+feddyn"], "scaffold and feddyn are both a drift correction"),
        (["--method", "local+scaffold"], "local shares no weights, so scaffold has nothing to act on"),
        (["--method", "local+ft"], "local already trains on the client's own data"),
        (["--method", "centralized+fedprox"], "centralized is a method of its own and cannot carry fedprox"),
        (["--method", "fedprox+fedprox"], "names 'fedprox' twice"),
        (["--set", "scoring.report=best_on_validation"], "data.val_share is 0; accepted: a val_share above 0"),
        (["--set", "scoring.test=split", "--set", "data.test_share=0"], "accepted: a test_share above 0"),
        (["--set", "data.pool=all", "--set", "data.test_share=0"], "leaves no test data; accepted: a test_share above"),
        (["--net", "cnn4"], "net 'cnn4' cannot take image (1, 8, 8); accepted: image"),
        (["--partition", "natural"], "partition 'natural' needs data with a field 'client'; accepted for this data: "),
        (["--clients", "2000"], "cannot give 2000 clients at least 10 of 1438 samples each; accepted: fewer clients"),
    ],
)
def test_combinations_that_make_no_sense(words: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert why in refuse(capsys, *words)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nonsense"], "No such command 'nonsense'."),
        (["data"], "Missing command."),
        (["run", "--lr"], "Option '--lr' requires an argument."),
        (["resume"], "Missing argument 'DIR'."),
        (["list", "method"], "unknown list 'method': did you mean 'methods'? accepted: data, methods, metrics, "),
        (["show", "nowhere"], "nowhere is no run: no experiment.toml there; accepted: a folder of `motet run`"),
        (["resume", "nowhere"], "nowhere is no run: no experiment.toml there; accepted: a folder of `motet run`"),
        (["run", "missing.toml"], "experiment file missing.toml does not exist"),
        (["run", "."], "experiment file . is a folder; accepted: a file"),
        (["config", "--protocol", "x"], "protocol is 'x'; accepted: motet | "),
        (["data", "show", "nothing.npz"], "nothing.npz: no such file; accepted: "),
    ],
)
def test_other_commands(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert sentence(capsys, *words).startswith(said)


def test_an_experiment_file_with_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    Path("e.toml").write_text("seed = 1\n[local\n")
    assert "experiment file e.toml is not valid TOML" in refuse(capsys, "e.toml")
    Path("e.toml").write_text("[local]\nbatch = '40'\n")
    assert refuse(capsys, "e.toml") == "local.batch is '40'; accepted: a whole number of at least 0"


# ------------------------------------------------------------ data files


def write_data(**changes: Any) -> None:
    """own.npz: 90 vectors in 3 classes of 3 clients, with changes; None leaves a field out."""
    rows = np.arange(90)
    fields = {"x": np.outer(rows % 3, np.ones(4, np.float32)), "y": rows % 3, "client": rows // 30}
    np.savez("own.npz", **{name: value for name, value in (fields | changes).items() if value is not None})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"y": np.arange(90) % 3 - 1}, "field 'y' holds -1; accepted: integers from 0 to 65535"),
        ({"y": np.full(90, 10**9)}, "field 'y' holds 1000000000; accepted: integers from 0 to 65535"),
        ({"y": np.ones(90, float)}, "field 'y' has dtype float64; accepted: integers"),
        ({"y": np.zeros(90, int)}, "field 'y' holds only label 0; accepted: at least two classes"),
        ({"y": np.zeros(89, int)}, "field 'y' has shape (89,); accepted: (90,) as x has samples"),
        ({"y": None}, "field 'y' is missing; accepted: x, y and optionally "),
        ({"x": np.full((90, 4), np.nan)}, "field 'x' holds NaN or infinite values; accepted: finite numbers"),
        ({"x": np.array([["a"]] * 90)}, "field 'x' has dtype <U1; accepted: uint8, float16, float32, float64"),
        ({"x": np.array([{}] * 90)}, "field 'x' holds Python objects or is damaged ("),
        ({"x": np.zeros(90, np.float32)}, "field 'x' has shape (90,); accepted: images "),
        ({"x": np.zeros((0, 4), np.float32)}, "field 'x' holds no samples; accepted: at least one"),
        ({"client": np.linspace(0, 1, 90)}, "field 'client' has dtype float64; accepted: integers"),
        ({"split": np.full(90, 2)}, "field 'split' holds 2; accepted: integers from 0 to 1"),
        ({"split": np.full(90, 1)}, "field 'split' holds no 0; accepted: "),
    ],
)
def test_data_files_with_a_mistake(
    changes: dict[str, Any], said: str, capsys: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder
) -> None:
    write_data(**changes)
    assert refuse(capsys, "--data", "own.npz").startswith(f"own.npz: {said}")


def test_missing_truncated_and_foreign_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert refuse(capsys, "--data", "own.npz").startswith("own.npz: no such file; accepted: ")
    write_data()
    whole = Path("own.npz").read_bytes()
    for length in (0, 10, len(whole) // 2, len(whole) - 20):
        Path("own.npz").write_bytes(whole[:length])
        assert refuse(capsys, "--data", "own.npz").startswith("own.npz: ")
    Path("own.npz").write_text("not an archive")
    assert "cannot be read as .npz" in refuse(capsys, "--data", "own.npz")
    Path("folder").mkdir()
    assert refuse(capsys, "--data", "folder").startswith("folder: holds no .npz file; accepted: ")


def test_a_client_without_samples(capsys: pytest.CaptureFixture[str]) -> None:
    write_data(client=np.minimum(np.arange(90) // 30, 1), split=(np.arange(90) >= 30).astype(int))
    main(["data", "show", "own.npz", "--partition", "natural", "--json"])
    assert len(json.loads(capsys.readouterr().out)["clients"]) == 1  # the other has nothing to train on: no client
    write_data()
    said = refuse(capsys, "--data", "own.npz", "--partition", "dirichlet:0.001", "--set", "data.min_size=0")
    assert re.search(r"client \d+ has no training samples; accepted: at least one \(use fewer clients\)", said)


# ------------------------------------------------------------ folders and disks


def test_an_output_folder_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    said = "already holds a run; continue it with `motet resume here` or choose another --out"
    assert main(["run", *TINY, "--out", "here", "--json"]) == 0
    capsys.readouterr()
    assert said in sentence(capsys, "run", *TINY, "--out", "here")
    Path("here/summary.json").unlink()
    lock = FolderLock(Path("here"))
    assert sentence(capsys, "resume", "here") == f"run here is in use by process {os.getpid()}"
    lock.release()
    Path("other").mkdir()
    Path("other/thesis.tex").write_text("precious")
    assert "is not empty; choose another --out" in sentence(capsys, "run", *TINY, "--out", "other")
    Path("file").touch()
    assert "is a file; choose another --out" in sentence(capsys, "run", *TINY, "--out", "file")
    assert "cannot write file/run: Not a directory" in sentence(capsys, "run", *TINY, "--out", "file/run")


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    """The system refuses to write beyond that size, as a full disk would."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_that_fills_up_and_is_freed(capsys: pytest.CaptureFixture[str]) -> None:
    with no_file_larger_than(20_000):
        code = main(["run", *TINY, "--out", "here"])
    out, err = capsys.readouterr()
    assert code == 2 and out == ""
    assert err.splitlines()[-1].startswith("error: cannot write here/checkpoint/")
    assert err.endswith("File too large; raise the limit on the size of a file\n")
    assert main(["resume", "here", "--json"]) == 0  # nothing was lost
    assert main(["run", *TINY, "--out", "whole", "--json"]) == 0
    assert Path("here/weights.safetensors").read_bytes() == Path("whole/weights.safetensors").read_bytes()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_standard_output_on_a_full_disk() -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "motet", "--help"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (2, "error: standard output: No space left on device\n")


@pytest.mark.skipif(not Path("/proc/version").exists(), reason="no folder that even root cannot write")
def test_a_disk_that_cannot_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert sentence(capsys, "run", *TINY, "--out", "/proc/run").startswith("cannot write /proc/run: ")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    Path("locked").mkdir(mode=0o500)
    said = sentence(capsys, "run", *TINY, "--out", "locked/run")
    assert said == "cannot write locked/run: Permission denied; choose a folder that you may write to"


# ------------------------------------------------------------ resuming something else


@pytest.fixture
def half(capsys: pytest.CaptureFixture[str]) -> Path:
    """A run whose end was lost."""
    write_data()
    words = ["--data", "own.npz", "--partition", "natural", "--method", "scaffold", "--out", "half", "--json"]
    assert main(["run", *TINY, *words]) == 0
    capsys.readouterr()
    Path("half/summary.json").unlink()
    return Path("half")


def test_resuming_another_experiment_is_refused(half: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = half / "experiment.toml"
    text = file.read_text()
    file.write_text(text.replace("epochs = 1", "epochs = 3", 1).replace('method = "scaffold"', 'method = "fedavg"'))
    said = sentence(capsys, "resume", "half")
    assert "belongs to another experiment" in said
    assert "method: scaffold there, fedavg here; local.epochs: 1 there, 3 here" in said
    file.write_text(text)
    assert main(["resume", "half", "--json"]) == 0


def test_resuming_with_other_data_is_refused(half: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_data(y=(np.arange(90) + 1) % 3)
    said = sentence(capsys, "resume", "half")
    assert "was trained on other data; accepted: data with the hash " in said
    write_data()
    assert main(["resume", "half", "--json"]) == 0


def test_resuming_a_newer_format_is_refused(half: Path, capsys: pytest.CaptureFixture[str]) -> None:
    newest = max((half / "checkpoint").glob("*.json"))
    manifest = json.loads(newest.read_text())
    manifest.pop("checksum")
    manifest["format"] = FORMAT + 1
    newest.write_text(json.dumps(manifest | {"checksum": _checksum(manifest)}))
    said = sentence(capsys, "resume", "half")
    assert f"has format {FORMAT + 1}; accepted: up to {FORMAT}, so use a newer Motet" in said


def test_a_damaged_checkpoint_falls_back_and_says_so(half: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights = (half / "weights.safetensors").read_bytes()
    max((half / "checkpoint").glob("server-*")).write_bytes(b"damaged")
    assert main(["resume", "half", "--json"]) == 0
    err = capsys.readouterr().err
    assert "warning: the checkpoint of round 2 is damaged" in err and "going on from round 1" in err
    assert (half / "weights.safetensors").read_bytes() == weights


def test_the_pooled_client_leaves_no_stale_files(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = ["--rounds", "5", "--method", "centralized", "--set", "checkpoint.every=1", "--out", "here", "--json"]
    chosen += ["--set", "scoring.personal_model=last_participation"]  # so that it keeps something
    assert main(["run", *TINY, *chosen]) == 0
    kept = sorted(path.name for path in Path("here/checkpoint").glob("client-*"))
    assert kept == ["client--0001-000004.safetensors", "client--0001-000005.safetensors"]
    Path("here/summary.json").unlink()
    assert main(["resume", "here", "--json"]) == 0


# ------------------------------------------------------------ NaN in training


def test_clients_that_diverge_are_set_aside_and_the_run_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", *TINY, "--lr", "1e20", "--out", "here", "--json"]) == 0
    out, err = capsys.readouterr()
    rounds = Record(Path("here")).rounds
    assert len(rounds) == 2
    for row in rounds:
        assert sorted(map(int, row["set_aside"])) == row["cohort"]
        assert all("NaN or infinity" in why for why in row["set_aside"].values())
    assert json.loads(out)["set_aside"] == 6
    assert "6 trainings diverged and were set aside; rounds.jsonl names them" in err
    assert 0 <= json.loads(out)["generic"]["accuracy"] <= 1  # of the initial model
    assert "warning: every training failed" in err


def test_python_users_get_the_same_sentences() -> None:
    with pytest.raises(motet.MotetError, match=r"^unknown method 'skaffold': did you mean 'scaffold'\?"):
        motet.run(method="skaffold")
    with pytest.raises(motet.MotetError, match=r"^unknown field 'momentum': did you mean 'local.momentum'\?"):
        motet.run(momentum=0.5)
    with pytest.raises(motet.MotetError, match=r"is no run: no experiment\.toml there"):
        motet.load("nowhere")
