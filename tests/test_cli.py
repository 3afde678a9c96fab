"""The command line: what it prints where, what it records, how it goes on."""

import inspect
import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

import motet
from motet.cli import commands, demo, main, running
from motet.config.experiment import Experiment, resolve
from motet.config.short_names import FIELDS
from motet.data.sources.mnist import find_fashion
from motet.report.progress import RunBars, RunLines, StudyLines
from motet.report.tables.layout import Packed
from motet.runs.record import Record

TINY = ["--rounds", "2", "--clients", "6", "--epochs", "1", "--cohort", "0.5"]
MOTET = [sys.executable, "-m", "motet"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records go to a folder of the test's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)


def call(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[str, str]:
    """What a successful command writes to stdout and stderr."""
    code = main(words)
    out, err = capsys.readouterr()
    assert code == 0, err
    return out, err


# ------------------------------------------------------------ run


def test_run_prints_one_json_object_and_all_else_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = call(capsys, "run", *TINY, "--method", "scaffold", "--new-clients", "0.2", "--json")
    assert len(out.splitlines()) == 1
    summary = json.loads(out)
    assert (summary["method"], summary["data"], summary["seed"], summary["rounds"]) == ("scaffold", "digits", 0, 2)
    assert 0 <= summary["generic"]["accuracy"] <= 1
    for kind in ("weighted", "split"):
        assert set(summary["personal"][kind]) == {"generic_model", "personal_models"}
        assert all(0 <= value <= 1 for value in summary["personal"][kind].values())
    assert all(0 <= summary["personal"][name] <= 1 for name in ("std", "worst_tenth"))
    assert all(0 <= summary["new_clients"][name] <= 1 for name in ("before", "after"))
    assert summary["bytes_per_round"]["down"] > 0 and summary["bytes_per_round"]["up"] > 0
    assert summary["seconds"] > 0
    assert summary == json.loads(Path("runs/digits-scaffold-seed0/summary.json").read_text())
    assert "runs/digits-scaffold-seed0" in err


def test_a_figure_that_does_not_exist_is_null(capsys: pytest.CaptureFixture[str]) -> None:
    local = json.loads(call(capsys, "run", *TINY, "--method", "local", "--json")[0])
    assert local["generic"]["accuracy"] is None and local["new_clients"] == {"before": None, "after": None}
    assert local["bytes_per_round"]["down"] == 0 and 0 < local["bytes_per_round"]["up"] < 1000  # training losses
    told = ["--set", "scoring.train_loss=false"]
    local = json.loads(call(capsys, "run", *TINY, "--method", "local", *told, "--json")[0])
    assert local["bytes_per_round"] == {"down": 0, "up": 0}
    pooled = json.loads(call(capsys, "run", *TINY, "--method", "centralized", "--json")[0])
    assert pooled["bytes_per_round"] == {"down": None, "up": None}


def test_run_prints_a_table_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = call(capsys, "run", *TINY, "--out", "here")
    figures = r"^fedavg +(\d+\.\d +){5}\d of 6 +(\d+\.\d +){2}\d\.\d\d +\d+\.\d$"
    assert re.search(figures, out, re.MULTILINE)
    assert "Recorded in here" in out
    assert "fedavg: round 2 of 2, generic" in err


def test_a_later_layer_wins(capsys: pytest.CaptureFixture[str]) -> None:
    Path("e.toml").write_text('protocol = "dbe"\n[local]\nbatch = 11\nepochs = 3\nlr = 0.5\n[data]\nclients = 9\n')
    words = ["e.toml", "--rounds", "1", "--clients", "6", "--epochs", "2", "--lr", "0.25", "--set", "local.lr=0.125"]
    call(capsys, "run", *words, "--set", "data.partition=iid", "--out", "here", "--json")
    found = Record(Path("here")).experiment
    assert found.local.momentum == 0.0  # the protocol's, over the default
    assert found.local.batch == 11  # the file's, over the protocol
    assert (found.data.clients, found.local.epochs) == (6, 2)  # the flags', over the file
    assert (found.local.lr, found.data.partition) == (0.125, "iid")  # --set's, over all


def flag(value: object) -> str:
    return ",".join(value) if isinstance(value, tuple) else str(value)


def words_of(name: str, value: object) -> list[str]:
    return [f"--{name.replace('_', '-')}", *([] if value is True else [flag(value)])]


def test_every_flag_reaches_its_field(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Experiment] = []
    monkeypatch.setattr(running, "run_and_show", lambda experiment, *others: seen.append(experiment))
    values = {
        "method": "local",
        "data": "fmnist",
        "label": "outcome",
        "client": "hospital",
        "domain": "country",
        "leave_out": ("id",),
        "schema": "s.toml",
        "encoding": "latin-1",
        "decimal": ",",
        "dates": "mdy",
        "target": "number",
        "group": "patient",
        "time_column": "date",
        "drop_missing": True,
        "data_dir": "elsewhere",
        "partition": "iid",
        "partition_seed": 3,
        "clients": 7,
        "new_clients": 0.25,
        "subset": 0.5,
        "rounds": 9,
        "cohort": 3,
        "epochs": 4,
        "batch": 13,
        "lr": 0.5,
        "net": "cnn4",
        "head": "fc1",
        "precision": "bf16",
        "metric": "balanced_accuracy",
        "threshold": "recall>=0.9",
        "engine": "ray",
        "workers": 3,
        "ray_address": "127.0.0.1:6379",
        "seed": 8,
        "protocol": "pgfed",
    }
    assert values.keys() == FIELDS.keys()
    words = [word for name, value in values.items() for word in words_of(name, value)]
    assert main(["run", *words]) == 0
    for name, dotted in FIELDS.items():
        value: Any = seen[0]
        for part in dotted.split("."):
            value = getattr(value, part)
        assert value == values[name], name


def test_the_command_line_and_python_share_their_names() -> None:
    assert FIELDS.keys() <= inspect.signature(commands.run).parameters.keys()
    assert FIELDS.keys() <= inspect.signature(motet.run).parameters.keys()


# ------------------------------------------------------------ stopping and going on


def test_ctrl_c_then_resume_ends_with_the_same_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "--method", "scaffold", "--clients", "6", "--rounds", "40", "--epochs", "1", "--out"]
    # A test run in the background may have been started with Ctrl-C ignored, which its children would inherit.
    listening = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    with subprocess.Popen([*MOTET, *words, "stopped"], stderr=subprocess.PIPE, text=True, **listening) as process:
        try:
            rounds = Path("stopped/rounds.jsonl")
            until = time.monotonic() + 60
            while time.monotonic() < until and not (rounds.exists() and rounds.read_bytes().count(b"\n") >= 2):
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130
    assert err.splitlines()[-1] == "stopped; continue with `motet resume stopped`"
    assert "Traceback" not in err
    assert not Record(Path("stopped")).finished
    _, err = call(capsys, "resume", "stopped", "--json")
    assert "goes on after round" in err
    call(capsys, *words, "whole", "--json")
    assert Path("stopped/weights.safetensors").read_bytes() == Path("whole/weights.safetensors").read_bytes()
    assert Path("stopped/clients.jsonl").read_bytes() == Path("whole/clients.jsonl").read_bytes()


def test_resuming_a_finished_run_shows_it(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = call(capsys, "run", *TINY, "--out", "here", "--json")
    before = Path("here/summary.json").stat().st_mtime_ns
    assert call(capsys, "resume", "here", "--json")[0] == out
    assert Path("here/summary.json").stat().st_mtime_ns == before


# ------------------------------------------------------------ show


def test_show_puts_runs_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    for name, lr in (("a", "0.01"), ("b", "0.1"), ("c", "0.1")):
        call(capsys, "run", *TINY, "--lr", lr, "--out", f"all/{name}", "--json")
    out, _ = call(capsys, "show", "all/a", "all/b")
    assert re.search(r"^ +local\. ", out, re.MULTILINE) and re.search(r"^method +lr ", out, re.MULTILINE)
    assert re.search(r"^fedavg +0\.01 ", out, re.MULTILINE) and re.search(r"^fedavg +0\.1 ", out, re.MULTILINE)
    assert "digits, dirichlet:0.3, 6 clients" in out
    out, _ = call(capsys, "show", "all")
    assert re.search(r"^fedavg +0\.1 +b ", out, re.MULTILINE)  # twins are told apart by their folders
    rows = json.loads(call(capsys, "show", "all", "--json")[0])
    assert [row["method"] for row in rows] == ["fedavg"] * 3


def test_show_names_what_is_not_finished(capsys: pytest.CaptureFixture[str]) -> None:
    call(capsys, "run", *TINY, "--out", "all/done", "--json")
    call(capsys, "run", *TINY, "--out", "all/half", "--json")
    Path("all/half/summary.json").unlink()
    out, err = call(capsys, "show", "all")
    assert out.count("fedavg") == 1
    assert "not finished: all/half" in err and "motet resume all/half" in err
    assert main(["show", "all/half"]) == 2


def test_protocols_side_by_side_say_how_they_differ(capsys: pytest.CaptureFixture[str]) -> None:
    for protocol in ("fedrod", "dbe"):
        words = ["--protocol", protocol, "--set", "data.min_size=5", "--out", f"all/{protocol}", "--json"]
        call(capsys, "run", *TINY, *words)
    out, _ = call(capsys, "show", "all")
    assert "The runs also differ in" in out and "scoring.test" in out
    assert "on the common test set" not in out and "own test split" not in out  # it is not the same for both


# ------------------------------------------------------------ list, data, config


@pytest.mark.parametrize("what", ["methods", "data", "nets", "partitions", "transforms", "protocols", "metrics"])
def test_list(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(call(capsys, "list", what, "--json")[0])
    assert rows and all(row["name"] and row["summary"] and row["paper"] for row in rows)
    out, _ = call(capsys, "list", what)
    assert all(row["name"] in out for row in rows)
    assert max(map(len, out.splitlines())) <= 100


def test_data_show(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["data", "show", "digits", "--partition", "dirichlet:0.3", "--clients", "5", "--seed", "4"]
    clients = json.loads(call(capsys, *words, "--json")[0])["clients"]
    assert [client["id"] for client in clients] == [0, 1, 2, 3, 4]
    assert all(sum(c["counts"]) == c["train"] + c["val"] + c["test"] for c in clients)
    assert sum(sum(c["counts"]) for c in clients) == 1438  # a fifth of 1797 is the common test set
    out, _ = call(capsys, *words)
    for client in clients:
        cells = [client["id"], *client["counts"], client["train"], client["test"], sum(client["counts"])]
        assert re.search("^ *" + " +".join(map(str, cells)) + "$", out, re.MULTILINE)
    same = json.loads(call(capsys, *words[:-1], "9", "--partition-seed", "4", "--json")[0])["clients"]
    assert same == clients  # the partition has a seed of its own


def test_data_show_of_many_classes_stays_narrow(capsys: pytest.CaptureFixture[str]) -> None:
    import numpy as np

    np.savez("many.npz", x=np.zeros((300, 4), np.float32), y=np.arange(300) % 60)
    out, _ = call(capsys, "data", "show", "many.npz", "--partition", "iid", "--clients", "3")
    assert max(map(len, out.splitlines())) <= 100
    assert re.search(r"^ *client +classes +largest +train +test +total$", out, re.MULTILINE)


KNOWN_ROWS = {
    0: [67, 1, 0, 0, 0, 0, 2, 0, 5, 7],
    5: [5473, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    12: [13, 1, 781, 135, 0, 66, 106, 684, 0, 6765],
    19: [1, 491, 1876, 267, 1, 2060, 1, 0, 0, 1],
}


@pytest.mark.skipif(find_fashion() is None, reason="Fashion-MNIST is not on this machine")
def test_the_published_partition(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["fmnist", "--protocol", "dbe", "--partition", "dirichlet-balanced:0.1", "--clients", "20"]
    clients = json.loads(call(capsys, "data", "show", *words, "--partition-seed", "1", "--json")[0])["clients"]
    assert {i: clients[i]["counts"] for i in KNOWN_ROWS} == KNOWN_ROWS
    assert sum(sum(client["counts"]) for client in clients) == 70_000


@pytest.mark.parametrize("protocol", [None, "dbe"])
def test_config_is_an_experiment_file(protocol: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = call(capsys, "config", *(["--protocol", protocol] if protocol else []))
    assert resolve(tomllib.loads(out)) == resolve({"protocol": protocol})


def test_an_option_without_a_value_is_shown_as_left_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`gamma=None` could not be typed."""
    monkeypatch.setenv("COLUMNS", "300")
    out, _ = call(capsys, "list", "methods")
    assert "gamma=left out" in out and "=None" not in out


# ------------------------------------------------------------ demo


def test_demo_prints_one_table_and_can_be_called_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "METHODS", ("local", "fedavg"))
    monkeypatch.setattr(demo, "SETTING", {**demo.SETTING, "rounds": 1, "epochs": 1})
    out, err = call(capsys, "demo")
    assert re.search(r"^local(?: !)? +– +– +(\d+\.\d[*~]? +){3}– +–$", out, re.MULTILINE)
    assert re.search(r"^local(?: !)? +– +\d+\.\d +– → +\d+\.\d +0\.0+[1-9] +\d+\.\d$", out, re.MULTILINE)
    assert re.search(r"^fedavg(?: !)? +(\d+\.\d[*~]? +){5}\d+ of 32 +\d+ of 32$", out, re.MULTILINE)
    assert re.search(r"^fedavg(?: !)? +(\d+\.\d +){2}\d+\.\d → +\d+\.\d +\d\.\d+ +\d+\.\d$", out, re.MULTILINE)
    assert "Report in runs/demo/report.html" in err and "Recorded in runs/demo;" in err
    assert max(map(len, out.splitlines())) <= 100
    assert "Recorded in runs/demo-2;" in call(capsys, "demo")[1]
    again, _ = call(capsys, "show", "runs/demo")
    assert {line for line in again.splitlines() if "→" in line} == {line for line in out.splitlines() if "→" in line}


def test_demo_says_what_each_of_the_five_is_for_in_the_numbers_of_its_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setattr(demo, "METHODS", tuple(m for m in demo.METHODS if re.search("avg|rod|pg|basis|super", m)))
    monkeypatch.setattr(demo, "SETTING", {**demo.SETTING, "rounds": 2, "epochs": 1})
    out, _ = call(capsys, "demo")
    runs = {run["method"]: run for run in json.loads(call(capsys, "show", "runs/demo", "--json")[0])}
    rod, avg, tuned = runs["fedrod"], runs["fedavg"], runs["fedavg+ft"]
    said = dict(line.split(": ", 1) for line in out.splitlines() if ": " in line and "Own models" not in line)

    def percents(*shares: float) -> list[str]:
        return [f"{100 * share:.1f}" for share in shares]

    def found(name: str) -> list[str]:
        return re.findall(r"\d+\.\d", said[name])

    def own(run: dict[str, Any]) -> float:
        return float(run["personal"]["weighted"]["personal_models"])

    before = [run["new_clients"]["before"] for run in (rod, avg)]
    assert found("FED-ROD") == percents(*before, rod["generic"]["accuracy"], avg["generic"]["accuracy"])
    for name, method in (("PGFed", "pgfed"), ("FedBasis", "fedbasis")):
        after = [run["new_clients"]["after"] for run in (runs[method], tuned)]
        assert found(name) == percents(own(runs[method]), own(tuned), *after)
    line = runs["superfed-mm(lam=0.3)"]["figures"]
    assert found("SuPerFed") == percents(
        *(line[f"member:{lam}.weighted.accuracy.mean"] for lam in ("0.0", "0.3", "1.0"))
    )
    assert found("DBE") == percents(own(runs["fedavg+dbe"]), own(avg))


# ------------------------------------------------------------ help, progress


def test_help_needs_no_torch() -> None:
    program = "import sys; from motet.cli import main; main(['--help']); sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0 and "demo" in done.stdout


def test_motet_alone_says_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = call(capsys)
    assert all(name in out for name in ("demo", "run", "resume", "show", "list", "data", "config"))


def test_a_reader_who_leaves_early_causes_no_noise() -> None:
    with subprocess.Popen([*MOTET, "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        err = process.stderr.read()
    assert err == b"" and process.returncode == 1


def follow(watcher: RunLines | RunBars, rounds: int) -> None:
    experiment = resolve({"rounds": {"count": rounds}, "scoring": {"every": 5}})
    with watcher:
        watcher.started(experiment, Path("there"), 0, "the newest checkpoint is damaged")
        for round in range(1, rounds + 1):
            scores = (
                {"generic.common.accuracy.pooled": 0.5, "personal.weighted.accuracy.mean": None}
                if round % 5 == 0
                else {}
            )
            watcher.round({"round": round, **scores})


def test_a_log_stays_short() -> None:
    file = StringIO()
    follow(RunLines(Console(file=file), lines=10), 1000)
    lines = file.getvalue().splitlines()
    assert lines[0] == "warning: the newest checkpoint is damaged"
    assert lines[-1] == "fedavg: round 1000 of 1000, generic 50.0 %, personal – %"
    assert len(lines) == 12


def test_a_run_without_test_rows_has_rounds_and_no_dashes() -> None:
    file = StringIO()
    experiment = resolve({"rounds": {"count": 2}, "scoring": {"every": 1}})
    with RunLines(Console(file=file), lines=10) as watcher:
        watcher.started(experiment, Path("there"), 0, None)
        watcher.round({"round": 2, "generic.common.accuracy.pooled": None, "personal.weighted.accuracy.mean": None})
    assert file.getvalue().splitlines()[-1] == "fedavg: round 2 of 2"


def test_a_study_gives_each_reason_of_a_failure_once() -> None:
    file = StringIO()
    with StudyLines(Console(file=file), total=6) as watcher:
        for label in ("fedavg", "fedper", "ditto"):
            watcher.round(SimpleNamespace(label=label, rounds=2), 1)
            watcher.ended(SimpleNamespace(label=label, rounds=2), "no disk" if label == "ditto" else "no data")
    lines = [line.partition(";")[0] for line in file.getvalue().splitlines()]
    assert lines == ["fedavg: failed: no data", "fedper: failed as fedavg did", "ditto: failed: no disk"]


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    file = StringIO()
    follow(RunBars(Console(file=file, force_terminal=True, width=100)), 20)
    assert "20/20" in file.getvalue() and "generic 50.0 %, personal – %" in file.getvalue()


def test_the_module_runs_too() -> None:
    done = subprocess.run([*MOTET, "--version"], capture_output=True, text=True, env={**os.environ})
    assert re.fullmatch(r"motet \d+\.\d+\.\d+\n", done.stdout), done.stderr


# ------------------------------------------------------------ tables


@pytest.mark.parametrize("width", [30, 60, 80, 100, 200])
def test_a_table_loses_nothing_at_any_width(width: int) -> None:
    """Columns without room follow below, under the same labels; what looks like markup is shown as it is."""
    titles = [f"figure\nnumber {i}" for i in range(12)]
    rows = [[f"{i}.{j}" for j in range(12)] for i in range(2)]
    table = Packed(["method", "run"], [["fedavg", "[bold]a"], ["scaffold", "[/red]"]], titles, rows)
    file = StringIO()
    Console(file=file, width=width).print(table)
    lines = file.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    words = file.getvalue().split()
    assert all(words.count(cell) == 1 for row in rows for cell in row)
    assert words.count("[bold]a") == words.count("[/red]") == words.count("scaffold") == len(table.packs(width))


def test_measures_are_columns_and_figures(capsys: pytest.CaptureFixture[str]) -> None:
    Path("own.py").write_text("def largest(logits, y):\n    return logits.max()\n")
    asked = ["--metrics", "ece", "--metrics", "top5", "--metrics", "own.py:largest"]
    out, _ = call(capsys, "run", *TINY, *asked, "--out", "here")
    assert all(re.search(rf"\b{name},", out) for name in ("ece", "top5", "largest"))
    figures = json.loads(call(capsys, "show", "here", "--json")[0])[0]["figures"]
    for name in ("ece", "top5", "largest"):
        assert {f"personal.split.{name}.mean", f"generic.common.{name}.pooled"} <= figures.keys()
    assert figures["personal.weighted.top5.mean"] > figures["personal.weighted.accuracy.mean"]
    assert "personal.weighted.ece.mean" not in figures  # calibration is of a whole set
    assert Record(Path("here")).experiment.scoring.metrics == ("ece", "top5", "own.py:largest")


@pytest.mark.parametrize(
    ("metric", "sentence"),
    [
        ("acuracy", "unknown metric (scoring.metrics) 'acuracy': did you mean 'accuracy'?"),
        ("nowhere.py:f", "nowhere.py"),
        ("own.py:g", "'g'"),
        ("own.py:mean", "bears a name of Motet's own; accepted: a function of another name"),
        ("own.py:number", "own.py:number is no function; accepted: one of logits and labels"),
        ("own.py:words", "metric own.py:words gave str; accepted: a number"),
    ],
)
def test_a_measure_that_is_none(metric: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("own.py").write_text(
        "def mean(logits, y):\n    return 0\n\n\nnumber = 1\n\n\ndef words(logits, y):\n    return 'a'\n"
    )
    assert main(["run", *TINY, "--metrics", metric, "--out", "here"]) == 2
    err = capsys.readouterr().err
    assert sentence in err and len(err.strip().splitlines()[-1]) > 20


def test_show_says_who_would_be_better_alone(capsys: pytest.CaptureFixture[str]) -> None:
    for method in ("local", "fedavg"):
        call(capsys, "run", *TINY, "--method", method, "--out", f"all/{method}", "--json")
    rows = json.loads(call(capsys, "show", "all", "--json")[0])
    hurt = {row["method"]: row["personal"].get("hurt_vs_local_clients") for row in rows}
    clients = {name: {r["client"]: r for r in Record(Path("all") / name).clients} for name in ("local", "fedavg")}
    name = "personal.weighted.accuracy"
    worse = sum(row[name] < clients["local"][i][name] for i, row in clients["fedavg"].items())
    assert hurt == {"local": None, "fedavg": worse}
    named = json.loads(call(capsys, "show", "all/fedavg", "--local", "all/local", "--json")[0])
    assert named[0]["figures"]["personal.weighted.accuracy.hurt_vs_local"] == worse / 6
    assert "hurt_vs_local" not in json.loads(call(capsys, "show", "all/fedavg", "--json")[0])[0]["personal"]
    assert motet.load("all/fedavg", local="all/local").personal.hurt_vs_local_clients == worse
    assert main(["show", "all/fedavg", "--local", "all/fedavg"]) == 2
    assert "all/fedavg is a run of 'fedavg'; accepted: a run of 'local'" in capsys.readouterr().err
    call(capsys, "run", *TINY, "--method", "local", "--seed", "1", "--out", "other", "--json")
    assert main(["show", "all/fedavg", "--local", "other"]) == 2
    assert "accepted: a run of 'local' with the same section [data] and the same seed" in capsys.readouterr().err


def test_a_summary_without_its_figures_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    call(capsys, "run", *TINY, "--out", "old", "--json")
    summary = json.loads(Path("old/summary.json").read_text())
    del summary["figures"]
    Path("old/summary.json").write_text(json.dumps(summary))
    assert main(["show", "old"]) == 2
    assert "old/summary.json is damaged: figures is missing" in capsys.readouterr().err
    call(capsys, "run", *TINY, "--out", "all/new", "--json")
    Path("old").rename("all/old")
    out, err = call(capsys, "show", "all", "--json")
    assert len(json.loads(out)) == 1 and "left out: all/old/summary.json is damaged" in err
