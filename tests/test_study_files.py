"""Files of studies that were edited or damaged, and bench files with mistakes: one sentence, before anything runs."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from motet.cli import main
from motet.config.experiment import Experiment
from motet.studies.bench_file import could_be_there, read_bench

LESS = ["--clients", "4", "--rounds", "2", "--epochs", "1", "--jobs", "1", "--out", "study"]
COMPARE = ["compare", "digits", "--methods", "fedavg", "--trials", "2", "--seeds", "1", "--time", "9h", *LESS]
Change = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(COMPARE) == 0
    return folder / "study"


PLANS: dict[str, tuple[Change, str]] = {
    "no trials": (lambda plan: plan.pop("trials"), "trials is missing"),
    "trials of text": (lambda plan: plan.update(trials="2"), "trials is '2'"),
    "trials by halves": (lambda plan: plan.update(trials=1.5), "trials is 1.5"),
    "more trials than asked": (lambda plan: plan.update(trials=3), "trials is 3; accepted: up to the 2 asked for"),
    "seeds without end": (lambda plan: plan.update(seeds=4611686018427387904), "seeds is 4611686018427387904"),
    "seeds in a list": (lambda plan: plan.update(seeds=["x"]), "seeds is ['x']"),
    "nobody left out": (lambda plan: plan.update(left_out=None), "left_out is None"),
    "notes of numbers": (lambda plan: plan.update(notes=[1]), "notes.0 is 1"),
    "a key too many": (lambda plan: plan.update(more=1), "more is 1"),
}


def again(study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(study, "study"))


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_that_was_edited(
    name: str, study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = again(study, tmp_path, monkeypatch) / "plan.json"
    plan = json.loads(path.read_text())
    change, said = PLANS[name]
    change(plan)
    path.write_text(json.dumps(plan))
    assert main(COMPARE) == 2
    err = capsys.readouterr().err.splitlines()
    assert len(err) == 1 and err[0].startswith("error: study/plan.json is damaged: ") and said in err[0]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"trial": 0, "round": 1, "score": "x", "failure": null}', "score is 'x'"),
        ('{"trial": 0, "round": 1, "score": 1e308, "failure": null}', "score is 1e+308"),
        ('{"trial": 0, "round": 1, "score": 0.5, "loss": null, "failure": 3}', "failure is 3"),
        ('{"trial": 0, "options": {"lr": [1]}}', "options.lr"),
        ('{"trial": 0}', "round is missing"),
        ("[]", "a JSON object"),
    ],
)
def test_a_journal_that_was_edited(
    line: str,
    said: str,
    study: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = again(study, tmp_path, monkeypatch) / "tuning" / "fedavg" / "trials.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], line, *lines[2:]]) + "\n")
    assert main(COMPARE) == 2
    err = capsys.readouterr().err.splitlines()[-1]
    assert err.startswith(f"error: line 2 of {path} is damaged") and said in err


SETTING = "[setting]\nrounds = 2\nclients = 4\nepochs = 1\n"
BENCH = f'name = "b"\nfigures = ["generic.accuracy"]\nseeds = [0, 1]\n{SETTING}'
BENCHES = {
    "seeds twice": ("[0, 1]", "[0, 0]", "seeds has 0 twice; accepted: each once"),
    "many seeds": ("[0, 1]", str(list(range(20_000))), "seeds is "),
    "many runs": (SETTING, f"{SETTING}[grid]\nseed = {list(range(9000))}\n", "accepted: up to 10000 runs"),
    "a figure that is none": ("generic.accuracy", "generic.nothing", "figures names 'generic.nothing'; accepted: "),
    "a metric nobody has": (
        "generic.accuracy",
        "personal.split.nope.mean",
        "figures names 'personal.split.nope.mean'",
    ),
    "a curve that is none": ("generic.accuracy", "curve.nope", "figures names 'curve.nope'; accepted: "),
    "a last that is none": ("generic.accuracy", "last.nope", "figures names 'last.nope'; accepted: "),
    "a figure twice": ('["generic.accuracy"]', '["seconds", "seconds"]', "figures has 'seconds' twice"),
    "an unknown key of quick": (SETTING, f"{SETTING}[quick]\nnope = 1\n", "unknown field 'nope'"),
    "a metric that is none": (SETTING, f"{SETTING}[setting.scoring]\nmetrics = ['nope']\n", "'nope'"),
}


@pytest.mark.parametrize(
    ("figure", "there"),
    [
        ("after.weighted.adaptation_0_01.mean", True),
        ("personal.split.line_0_5.std", True),
        ("generic.split.mdl:fc1.pooled", True),
        ("personal.split.lines.mean", False),
    ],
)
def test_figures_that_a_metric_of_the_whole_run_has_by_details_can_be_asked_for(figure: str, there: bool) -> None:
    assert could_be_there(figure, [Experiment()]) is there


@pytest.mark.parametrize("name", BENCHES)
def test_a_mistake_in_a_bench_file_is_said_before_anything_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    before, after, said = BENCHES[name]
    Path("bench.toml").write_text(BENCH.replace(before, after))
    assert main(["bench", "bench.toml", "--out", "out"]) == 2
    err = capsys.readouterr().err.splitlines()
    assert len(err) == 1 and said in err[0] and not Path("out").exists()


@pytest.mark.parametrize(
    "figure",
    [
        "generic.accuracy",
        "personal.split.personal_models",
        "personal.worst_tenth",
        "personal.split.accuracy.std",
        "personal@final_sync.split.accuracy.mean",
        "new_clients.after@best_on_validation",
        "bytes_per_round.up",
        "seconds",
        "diverged.personal_models",
        "training.update_variance",
        "generic.split.mdl:fc1.pooled",
        "curve.personal.split.accuracy.by_samples",
        "curve.train_loss",
        "curve.pgfed_alpha_mean",
        "last.member:",
        "last.rule:",
    ],
)
def test_what_runs_have_may_be_asked_for(figure: str, tmp_path: Path) -> None:
    (tmp_path / "b.toml").write_text(BENCH.replace("generic.accuracy", figure) + 'method = "pgfed"\n')
    assert read_bench(tmp_path / "b.toml").figures == (figure,)


@pytest.mark.parametrize("command", ["compare", "tune"])
def test_a_measure_that_is_none_is_said_before_all_tuning(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [command, "digits", "--methods", "fedavg", "--trials", "2", *LESS]
    assert main([*words, "--set", "scoring.metrics=['nope']"]) == 2
    assert "'nope'" in capsys.readouterr().err and not Path("study").exists()


def test_a_comparison_needs_something_to_look_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was computed whole, and ended in a KeyError."""
    monkeypatch.chdir(tmp_path)
    assert main([*COMPARE, "--set", "scoring.test=none"]) == 2
    assert "scoring.test is 'none', but methods are compared on test data; accepted: " in capsys.readouterr().err
    assert not Path("study").exists()
