"""`motet show` on real records: the right conclusion for natural clients, names, seeds, runs that cannot be shown."""

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from motet.cli import main
from motet.config.experiment import resolve
from motet.io.text import printable
from motet.report.progress import RunLines
from motet.runs.clients_file import read_clients_info
from motet.runs.record import Record
from motet.server.assembly import settle

NAMES = np.array(["Bern", "[red]Basel[/red]", "Zürich\x1b[31m", "病院", "Genève\nnord", "Lugano"])
DIAGNOSES = np.array(["healthy", "flu", "rare"])


def clinics(path: Path) -> str:
    """The data of examples/own_data.py, with names."""
    random = np.random.default_rng(0)
    clinic = np.repeat(np.arange(6), 200)
    y = random.choice(3, size=len(clinic), p=[0.45, 0.45, 0.1])
    offset = random.normal(0, 2, size=(6, 4))
    x = (np.eye(3, 4)[y] * 3 + offset[clinic] + random.normal(size=(len(y), 4))).astype(np.float32)
    np.savez(path, x=x, y=DIAGNOSES[y], client=NAMES[clinic])
    return str(path)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three methods on six clinics, and two seeds more of one of them."""
    folder = tmp_path_factory.mktemp("shown")
    data = clinics(folder / "clinics.npz")
    words = ["--data", data, "--partition", "natural", "--rounds", "10", "--cohort", "1.0", "--lr", "0.05", "--json"]
    words += ["--set", "scoring.personal_model=last_participation"]
    for method, seed in (("local", 0), ("fedavg", 0), ("fedavg+ft", 0), ("fedavg", 1), ("fedavg", 2)):
        assert (
            main(["run", *words, "--method", method, "--seed", str(seed), "--out", f"{folder}/all/{method}-{seed}"])
            == 0
        )
    return folder / "all"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)


def call(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[str, str]:
    capsys.readouterr()
    code = main([str(word) for word in words])
    out, err = capsys.readouterr()
    assert code == 0, err
    return out, err


# ------------------------------------------------------------ natural clients


@pytest.mark.parametrize(
    ("choices", "test"),
    [
        ({"data": {"partition": "natural"}}, "split"),
        ({"data": {"partition": "natural", "test_share": 0.0}}, "common"),
        ({"data": {"partition": "dirichlet:0.3"}}, "common"),
        ({"data": {"partition": "natural"}, "scoring": {"test": "common"}}, "common"),
        ({"data": {"partition": "natural"}, "protocol": "fedrod"}, "common"),
        ({"data": {"partition": "iid"}, "protocol": "dbe"}, "split"),
    ],
)
def test_natural_clients_are_judged_on_their_own_data(choices: dict[str, Any], test: str) -> None:
    assert settle(resolve({"net": {"name": "mlp"}, **choices})).scoring.test == test


def test_the_printed_conclusion_is_the_right_one(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = call(capsys, "show", *(runs / f"{name}-0" for name in ("local", "fedavg", "fedavg+ft")))
    rows = {line.split()[0]: line.split() for line in out.splitlines() if re.match(r"(local|fedavg)", line)}
    own = {name: float(row[3].strip("*~")) for name, row in rows.items()}
    assert own["local"] > 94 and own["fedavg+ft"] > 94 and float(rows["fedavg"][2]) < 84
    summaries = json.loads(call(capsys, "show", runs / "fedavg-0", "--json")[0])
    assert summaries[0]["reported"]["figure"] == "personal.split.accuracy.mean"
    assert "headline: own models on each client's own test data" in " ".join(out.split())
    assert "by class" not in out  # figures of real clients from which their class counts could be solved


def test_progress_compares_both_models_on_the_same_data() -> None:
    file = StringIO()
    watcher = RunLines(Console(file=file, width=100), lines=1)
    watcher.started(resolve({"rounds": {"count": 1}, "scoring": {"test": "split"}}), Path("there"), 0, None)
    common, split = {"generic.common.accuracy.pooled": 0.9}, {"generic.split.accuracy.mean": 0.5}
    watcher.round({"round": 1, **common, **split, "personal.split.accuracy.mean": 0.7})
    assert "generic 50.0 %, personal 70.0 %" in file.getvalue()


# ------------------------------------------------------------ names


def test_the_record_knows_names(runs: Path) -> None:
    people = read_clients_info(Record(runs / "fedavg-0"))
    assert [person.name for person in people.clients] == sorted(NAMES.tolist())
    assert people.classes == ("flu", "healthy", "rare") and people.common_test == 240
    assert sum(person.train + (person.test or 0) for person in people.clients) == 1200  # nothing is set aside
    old = json.loads((runs / "fedavg-0/clients.json").read_text())
    assert set(old) == {"classes", "clients", "common_test"}


def test_clients_by_name_with_alone_and_verdict(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [runs / "local-0", runs / "fedavg-0"]
    out, _ = call(capsys, "show", "--clients", *folders)
    assert out.count("fedavg, ") == 1 and "local, " not in out  # a run of local is a column
    assert "[red]Basel[/red]" in out and r"Zürich\x1b[31m" in out and r"Genève\nnord" in out and "病院" in out
    assert "\x1b" not in out
    (found,) = json.loads(call(capsys, "show", "--clients", *folders, "--json")[0])
    assert found["figure"] == "personal.split.accuracy" and len(found["clients"]) == 6
    rows = {row["client"]: row for row in Record(runs / "fedavg-0").clients if row["round"] == 10}
    alone = {row["client"]: row for row in Record(runs / "local-0").clients if row["round"] == 10}
    for client in found["clients"]:
        row = rows[client["id"]]
        assert (
            client["personal"] == row["personal.split.accuracy"] and client["generic"] == row["generic.split.accuracy"]
        )
        assert client["local_baseline"] == alone[client["id"]]["personal.split.accuracy"]
        low, high = client["interval"]
        assert low <= client["gain"] <= high
        assert client["verdict"] == ("gain" if low > 0 else "lose" if high < 0 else "noise")
    verdicts = found["verdicts"]
    assert sum(verdicts.values()) == 6 and verdicts["gain"] and not verdicts["lose"]
    assert re.search(rf"{verdicts['gain']} gains?, 0 lose, {verdicts['noise']} within noise", out)
    named = json.loads(call(capsys, "show", "--clients", folders[1], "--local", folders[0], "--json")[0])
    assert named == [found]
    assert main(["show", "--clients", str(folders[0]), "--local", str(folders[1])]) == 2
    without = json.loads(call(capsys, "show", "--clients", folders[1], "--json")[0])
    assert all(client["local_baseline"] is None for client in without[0]["clients"])


@pytest.mark.parametrize(
    "damage", ["[]", "{", '{"clients": 3}', '{"classes": [], "common_test": 1, "clients": [{"id": "a"}]}']
)
def test_damaged_names_are_a_sentence(damage: str, runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(runs / "fedavg-0", "bad")
    Path("bad/clients.json").write_text(damage)
    assert main(["show", "bad"]) == 2
    assert "bad/clients.json is damaged" in capsys.readouterr().err


def test_data_show_has_names(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["data", "show", runs.parent / "clinics.npz", "--partition", "natural"]
    out, _ = call(capsys, *words)
    assert re.search(r"^client +name +flu +healthy +rare +train +test +total$", out, re.MULTILINE)
    assert re.search(r"^\d +\[red\]Basel\[/red\] +\d+", out, re.MULTILINE) and "\x1b" not in out
    assert json.loads(call(capsys, *words, "--json")[0])["classes"] == ["flu", "healthy", "rare"]


# ------------------------------------------------------------ seeds


def test_seeds_are_one_line(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = call(capsys, "show", runs)
    found = json.loads(call(capsys, "show", *(runs / f"fedavg-{s}" for s in range(3)), "--json")[0])
    values = [100 * summary["figures"]["personal.split.accuracy.mean"] for summary in found]
    shown = f"{np.mean(values):.1f} ± {np.std(values, ddof=1):.1f}"
    assert shown in out and re.search(r"^fedavg +0 to 2 ", out, re.MULTILINE) and "n = 3" in out
    each, _ = call(capsys, "show", runs, "--each")
    assert "±" not in each and len(re.findall(r"^fedavg +[012] ", each, re.MULTILINE)) % 3 == 0


# ------------------------------------------------------------ runs that cannot be shown


DAMAGES = {
    "no JSON": "{",
    "a list": "[]",
    "too deep": "[" * 100_000,
    "no figures": "{}",
    "a number for a section": '{"figures": {}, "reported": 3}',
    "text for a number": None,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_one_damaged_run_does_not_hide_the_others(damage: str, runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(runs / "fedavg-0", "all/good")
    shutil.copytree(runs / "fedavg-0", "all/bad")
    text = DAMAGES[damage]
    if text is None:
        summary = json.loads(Path("all/bad/summary.json").read_text())
        summary["bytes_per_round"]["down"] = "many"
        text = json.dumps(summary)
    Path("all/bad/summary.json").write_text(text)
    for words in (["show", "all"], ["show", "all/bad", "all/good"], ["show", "--clients", "all"]):
        out, err = call(capsys, *words)
        assert "fedavg" in out and re.search(r"^left out: .*all/bad", err, re.MULTILINE)
    assert main(["show", "all/bad"]) == 2


def test_a_run_that_is_computed_elsewhere_is_said_to_be(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("good", "half"):
        shutil.copytree(runs / "fedavg-0", f"all/{name}")
    Path("all/half/summary.json").unlink()
    with open("all/half/lock", "r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        out, err = call(capsys, "show", "all")
        assert "still running: all/half (round 10 of 10)" in err and "resume" not in err and "fedavg" in out
        assert main(["show", "all/half"]) == 2
        assert capsys.readouterr().err == "error: run all/half is still running (round 10 of 10)\n"
    _, err = call(capsys, "show", "all")
    assert "not finished: all/half (continue it with `motet resume all/half`)" in err


@pytest.mark.parametrize("name", ["[bold]x", "[red]", "a\x1b[31mb", "line\nend", "\u202ertl", "x" * 120])
def test_any_folder_name_is_shown_as_text(name: str, runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in (name, "b"):
        shutil.copytree(runs / "fedavg-0", Path("all") / folder)  # twins are told apart by their folders
    shutil.copytree(runs / "fedavg-0", Path("all") / f"{name}-half")
    (Path("all") / f"{name}-half" / "summary.json").unlink()
    out, err = call(capsys, "show", "all")
    assert printable(name) in out.replace("\n", "") and f"{printable(name)}-half" in err
    assert not re.search("[\x1b\u202e]", out + err)


@pytest.mark.slow
def test_a_stream_that_takes_ascii_alone(runs: Path) -> None:
    def run(*words: str) -> str:
        environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
        command = [sys.executable, "-m", "motet", "show", "--clients", str(runs / "fedavg-0"), *words]
        done = subprocess.run(command, capture_output=True, env=environment, cwd=Path(__file__).parents[1])
        assert done.returncode == 0, done.stderr
        return done.stdout.decode("ascii")

    assert "---" in run() and r"\u75c5" in run()
    assert json.loads(run("--json"))[0]["clients"][5]["name"] == "病院"
