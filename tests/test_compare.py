"""`motet compare`: one answer, the same after any kill, and the right one where it is known."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from io import StringIO
from pathlib import Path
from typing import Any

import federations
import numpy as np
import pytest
from rich.console import Console
from test_tune import Killed, KilledAfter, Nobody

from motet.api.studies import method_names, seconds_of
from motet.cli import main
from motet.config.experiment import Experiment
from motet.config.short_names import choose
from motet.errors import MotetError
from motet.metrics.wording import duration
from motet.report.finished import read_finished
from motet.report.progress import StudyProgress
from motet.report.tables.compared import compared_table
from motet.report.tables.seeds import by_seed, differences_of
from motet.runs.record import Record
from motet.studies.budget import Plan, planned
from motet.studies.compare import CompareRequest, compare_methods
from motet.studies.comparison_file import ComparisonFile
from motet.studies.job import Job

TINY = {"subset": 0.4, "clients": 4, "rounds": 3, "cohort": 1.0, "epochs": 1, "batch": 20, "net": "mlp"}
METHODS = ("local", "fedavg", "fedavg+ft")


def asked(methods: tuple[str, ...] = METHODS, trials: int = 2, seeds: int = 2, **more: Any) -> CompareRequest:
    return CompareRequest(choose({"data": "digits", **TINY, **more}), methods, trials, seeds)


def compare(what: CompareRequest, folder: Path, progress: Any = None) -> dict[str, Any]:
    return json.loads(compare_methods(what, folder, 1, lambda total: nullcontext(progress or Nobody())).to_json())


def timeless(value: Any) -> Any:
    """Without what the clock says."""
    if isinstance(value, dict):
        return {k: timeless(v) for k, v in value.items() if k not in ("seconds", "report")}
    return [timeless(v) for v in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("compare") / "it"
    return folder, compare(asked((*METHODS, "fedbn", "centralized"), new_clients=0.25), folder)


# ---------------------------------------------------------------- what it says


def test_comparison_json(compared: tuple[Path, dict[str, Any]]) -> None:
    folder, result = compared
    written = json.loads((folder / "comparison.json").read_text())
    assert timeless(written) == timeless(result)
    assert written["format"] == 1
    answer = written["recommended"]
    assert answer.keys() >= {"method", "options", "reason", "certain"}
    assert {each["method"] for each in written["methods"]} == {*METHODS, "centralized"}
    for each in written["methods"]:
        low, high = each["personal"]["interval"]
        assert low <= each["personal"]["mean"] <= high
        assert len(each["runs"]) == len(each["trials"]) == 2
        assert all((folder / run / "summary.json").is_file() for run in each["runs"])
    means = [each["personal"]["mean"] for each in written["methods"]]
    assert means == sorted(means, reverse=True)


def test_figures_are_those_of_the_records(compared: tuple[Path, dict[str, Any]]) -> None:
    folder, result = compared
    for each in result["methods"]:
        records = [Record(folder / run) for run in each["runs"]]
        headlines = [record.summary.figures[result["figure"]] for record in records]
        assert each["personal"]["mean"] == pytest.approx(np.mean(headlines))
        assert each["personal"]["std"] == pytest.approx(np.std(headlines, ddof=1))
        sent = [
            sum(record.summary.bytes_per_round.model_dump().values())
            for record in records
            if each["method"] != "centralized"
        ]
        assert each["bytes_per_round"] == (pytest.approx(np.mean(sent)) if sent else None)
        assert {record.experiment.data.partition_seed for record in records} == {0}
        assert [record.experiment.seed for record in records] == [0, 1]
    fedavg = next(each for each in result["methods"] if each["method"] == "fedavg")
    assert fedavg["personal"]["mean"] == pytest.approx(fedavg["generic"]["mean"])  # everybody is served the one model


def test_the_same_runs_get_the_same_verdict_in_tables_and_pages(compared: tuple[Path, dict[str, Any]]) -> None:
    folder, result = compared
    methods = result["methods"]
    lines = by_seed([read_finished(folder / run) for each in methods for run in each["runs"]])
    by_name = {each.first.summary.method: i for i, each in enumerate(lines)}
    found = differences_of(lines)
    told = 0
    for each in methods:
        mine = str(by_name[each["expression"]])
        if each["difference"]:
            control = str(by_name[next(m["expression"] for m in methods if m["method"] == "fedavg+ft")])
            assert found.certain(mine, control) == each["difference"]["certain"]
            assert found.of(mine, control).mean == pytest.approx(each["difference"]["mean"])
            assert found.of(mine, control).interval == pytest.approx(each["difference"]["interval"])
            told += 1
    assert told


def test_who_is_hurt_by_name(compared: tuple[Path, dict[str, Any]]) -> None:
    _, result = compared
    fedavg = next(each for each in result["methods"] if each["method"] == "fedavg")
    worse = {c["name"] for c in result["clients"] if c["personal"]["fedavg"] < c["personal"]["local"]}
    assert set(fedavg["hurt_clients"]) == worse
    assert fedavg["hurt"] == len(worse)


def test_who_cannot_take_part_is_named(compared: tuple[Path, dict[str, Any]]) -> None:
    _, result = compared
    assert set(result["left_out"]) == {"fedbn"}
    assert any("fedbn is left out: " in note for note in result["notes"])


def test_a_yardstick_is_no_choice(compared: tuple[Path, dict[str, Any]]) -> None:
    _, result = compared
    assert result["recommended"]["method"] != "centralized"
    assert "centralized" not in result["recommended"]["may_be_equal"]


def test_test_data_are_read_after_everything_is_chosen(compared: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = compared
    chosen = max(path.stat().st_mtime for path in folder.glob("tuning/*/trials.jsonl"))
    first = min(path.stat().st_mtime for path in folder.glob("runs/*/environment.json"))
    assert chosen <= first
    for path in folder.glob("tuning/*/*/clients.jsonl"):
        assert "split" not in {
            key.split(".")[1] for row in map(json.loads, path.open()) for key in row if "accuracy" in key
        }


def test_the_recommended_experiment_can_be_run(compared: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    folder, result = compared
    again = choose({}, folder / "recommended.toml")
    assert again.method == result["recommended"]["expression"]
    assert main(["run", str(folder / "recommended.toml"), "--out", str(tmp_path / "again")]) == 0
    of = next(each for each in result["methods"] if each["method"] == result["recommended"]["method"])
    first, second = (Record(path).summary.figures for path in (folder / of["runs"][0], tmp_path / "again"))
    assert first == second


def test_the_answer_is_shown_again(compared: tuple[Path, dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    """The folder that `motet compare` names is the one that people hand to `motet show`."""
    folder, result = compared
    assert main(["show", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["recommended"] == result["recommended"]
    assert main(["show", str(folder)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert " ".join(result["recommended"]["reason"].split())[:60] in said
    assert main(["show", str(folder), "--clients"]) == 0  # of its last runs
    assert "fedavg" in capsys.readouterr().out


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_the_table_fits(compared: tuple[Path, dict[str, Any]], width: int) -> None:
    _, result = compared
    console = Console(width=width, record=True, file=StringIO())
    console.print(compared_table(ComparisonFile.from_json(json.dumps(result).encode(), "it")))
    text = console.export_text()
    assert all(len(line) <= width for line in text.splitlines() if " " in line.strip())
    for each in result["methods"]:
        assert f"{100 * each['personal']['mean']:.1f} ± {100 * each['personal']['std']:.1f}" in text


def test_names_are_shown_as_text(compared: tuple[Path, dict[str, Any]]) -> None:
    _, result = compared
    evil = json.loads(json.dumps(result).replace('"local"', json.dumps("[red]\x1b[31m<b>")))
    console = Console(width=100, record=True, file=StringIO())
    console.print(compared_table(ComparisonFile.from_json(json.dumps(evil).encode(), "it")))
    text = console.export_text(styles=False)
    assert "\x1b[31m<b>" not in text and "[red]\\x1b[31m<b>" in text


# ---------------------------------------------------------------- kills


def test_killed_twice_and_begun_again_the_table_is_the_same(tmp_path: Path) -> None:
    what = asked(("fedavg", "fedavg+ft"))
    straight = compare(what, tmp_path / "straight")
    for rounds in (4, 7):
        with pytest.raises(Killed):
            compare(what, tmp_path / "killed", KilledAfter(rounds))
    assert not (tmp_path / "killed" / "comparison.json").exists()
    assert timeless(compare(what, tmp_path / "killed")) == timeless(straight)


def test_what_is_done_is_not_done_again(compared: tuple[Path, dict[str, Any]]) -> None:
    folder, result = compared
    again = compare(asked((*METHODS, "fedbn", "centralized"), new_clients=0.25), folder, KilledAfter(0))
    assert timeless(again) == timeless(result)


def test_another_study_does_not_go_on_in_the_folder(compared: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = compared
    with pytest.raises(MotetError, match="trials: 2 there, 3 here"):
        compare(asked((*METHODS, "fedbn", "centralized"), trials=3, new_clients=0.25), folder)


BENCH = """
name = "killed"
figures = ["personal.weighted.personal_models"]
seeds = [0, 1]
[setting]
data = { name = "digits", clients = 4, subset = 0.4 }
rounds = { count = 4, cohort = 1.0 }
[grid]
method = ["fedavg", "fedper"]
"""


@pytest.mark.slow
@pytest.mark.parametrize("command", ["compare", "bench"])
def test_kill_minus_nine(command: str, tmp_path: Path) -> None:
    (tmp_path / "bench.toml").write_text(BENCH)
    flags = [word for name, value in TINY.items() for word in (f"--{name}", str(value))]
    words = {
        "compare": ["compare", "digits", *flags, "--methods", "fedavg,ditto", "--trials", "2", "--seeds", "2"],
        "bench": ["bench", str(tmp_path / "bench.toml")],
    }[command] + ["--jobs", "2"]
    assert main([*words, "--out", str(tmp_path / "straight")]) == 0
    for rounds in (3, 9):
        out = ["--out", str(tmp_path / "killed")]
        process = subprocess.Popen([sys.executable, "-m", "motet", *words, *out], stderr=subprocess.DEVNULL)
        while process.poll() is None and count_rounds(tmp_path / "killed") < rounds:
            time.sleep(0.02)
        assert process.poll() is None
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert main([*words, "--out", str(tmp_path / "killed")]) == 0
    name = {"compare": "comparison.json", "bench": "results.json"}[command]
    results = [json.loads((tmp_path / folder / name).read_text()) for folder in ("straight", "killed")]
    assert timeless(results[0]) == timeless(results[1])


def count_rounds(folder: Path) -> int:
    return sum(len(path.read_bytes().splitlines()) for path in folder.glob("*/**/rounds.jsonl"))


def test_a_broken_method_of_the_users_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.py").write_text(
        "from motet.methods.base import Part\n\n\n"
        "class Mine(Part):\n"
        "    acts = 'correction'\n\n"
        "    def correct(self, t):\n"
        "        raise ValueError('not yet')\n"
    )
    result = compare(asked((f"{tmp_path / 'mine.py'}:Mine", "fedavg"), trials=1, seeds=1), tmp_path / "it")
    assert [each["method"] for each in result["methods"]] == ["fedavg"]
    (why,) = result["left_out"].values()
    assert "ValueError: not yet (in " in why and "mine.py, line 8" in why
    assert "Traceback" in capsys.readouterr().err


# ---------------------------------------------------------------- time


TWENTY = choose({**TINY, "data": "digits", "rounds": 20})


def test_all_fits() -> None:
    everything = Plan(trials=5, seeds=3)
    assert planned(everything, {"local": 1.0, "fedavg": 1.0}, TWENTY, 1, 1e6) == everything


def test_what_does_not_fit_is_said() -> None:
    per_round = {"local": 1.0, "fedavg": 1.0, "fedavg+ft": 1.0, "slow": 5.0, "slower": 20.0}
    less = planned(Plan(trials=5, seeds=3), per_round, TWENTY, 1, 3900)
    assert 2 <= less.trials < 5 and less.seeds == 3 and not less.left_out
    assert f"{less.trials} trials instead of 5" in less.notes[0]
    least = planned(Plan(trials=5, seeds=3), per_round, TWENTY, 1, 900)
    assert (least.trials, least.seeds) == (2, 2)
    assert set(least.left_out) == {"slower"} and "no time" in least.left_out["slower"]
    hopeless = planned(Plan(trials=5, seeds=3), per_round, TWENTY, 1, 1)
    assert set(hopeless.left_out) == {"slow", "slower"}
    assert "Even so" in hopeless.notes[-1]


def test_a_plan_is_kept(tmp_path: Path) -> None:
    what = CompareRequest(asked(("fedavg", "fedavg+ft")).experiment, ("fedavg", "fedavg+ft"), 3, 3, seconds=0.01)
    progress = StudyProgress(Console(file=StringIO()), 10_000)
    first = compare(what, tmp_path / "it", progress)
    assert progress.computed == progress.total  # of the plan, not of what was asked for
    assert all(len(each["trials"]) == 2 for each in first["methods"])
    assert any("2 trials instead of 3, 2 seeds instead of 3" in note for note in first["notes"])
    (tmp_path / "it" / "comparison.json").unlink()
    assert timeless(compare(what, tmp_path / "it")) == timeless(first)


@pytest.mark.parametrize(("text", "seconds"), [("20m", 1200), ("90s", 90), ("1h30m", 5400), ("2h", 7200)])
def test_times(text: str, seconds: int) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "20", "m", "0s", "-5m", "20 minutes"])
def test_times_that_are_none(text: str) -> None:
    with pytest.raises(MotetError, match=r"--time is .*accepted: "):
        seconds_of(text)


# ---------------------------------------------------------------- the command


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = [word for name, value in TINY.items() for word in (f"--{name}", str(value))]
    words = ["compare", "digits", *flags, "--methods", "local,fedavg", "--trials", "1", "--seeds", "1", "--jobs", "1"]
    assert main([*words, "--out", str(tmp_path / "it"), "--json"]) == 0
    captured = capsys.readouterr()
    last = json.loads(captured.out.splitlines()[-1])
    assert last.keys() == {"recommended", "methods", "report"}
    assert last["recommended"].keys() >= {"method", "options", "reason", "certain"}
    assert "% done" in captured.err and "left" in captured.err
    assert main([*words, "--out", str(tmp_path / "it")]) == 0
    assert "Not enough evidence. Recommended provisionally: " in capsys.readouterr().out  # four clients, one seed


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--methods", "fedavg,,local"], "--methods is 'fedavg,,local'; accepted: "),
        (["--methods", "fedavgg"], "did you mean 'fedavg'"),
        (["--trials", "0"], "--trials is 0; accepted: "),
        (["--seeds", "0"], "--seeds is 0; accepted: "),
        (["--time", "soon"], "--time is 'soon'; accepted: "),
        (["--jobs", "-1"], "--jobs is -1; accepted: "),
        (["--out", "README.md"], "is a file"),
        (["--set", "scoring.nothing=1"], "nothing"),
    ],
)
def test_mistakes(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "digits", *words]) == 2
    assert sentence in capsys.readouterr().err


def test_nothing_is_computed_where_nobody_could_be_judged(tmp_path: Path) -> None:
    rows = np.arange(120)
    np.savez(tmp_path / "few.npz", x=np.random.default_rng(0).normal(size=(120, 3)), y=rows % 2, client=rows % 6)
    nobody = choose({"data": str(tmp_path / "few.npz"), "rounds": 1}, None, {"data": {"test_share": 0.01}})
    with pytest.raises(MotetError, match=r"leaves no test samples; accepted: a larger data\.test_share"):
        compare(CompareRequest(nobody, METHODS, 1, 1), tmp_path / "it")
    assert not (tmp_path / "it").exists()


def test_commas_in_brackets_belong_to_their_method() -> None:
    assert method_names("superfed-mm(nu=1.0, mu=0.01), fedavg+ft") == ("superfed-mm(nu=1.0, mu=0.01)", "fedavg+ft")


def test_time_left_is_told_from_what_was_computed() -> None:
    now = [0.0]
    progress = StudyProgress(Console(file=StringIO()), 20, lambda: now[0])
    experiment = choose({**TINY, "data": "digits", "rounds": 5})
    done, job = (Job(label, Path(label), experiment) for label in ("done", "job"))
    progress.ended(done, None)  # it was there before
    assert progress.share == 0.25 and progress.left is None
    progress.began(job)
    now[0] = 10.0
    progress.round(job, 2)
    assert progress.left == pytest.approx(13 * 5.0)
    assert [duration(s) for s in (5, 89, 600, 3 * 3600 + 300)] == ["5 s", "89 s", "10 min", "3 h 5 min"]


# ---------------------------------------------------------------- the right answer


def setting(data: Path, rounds: int, seed: int) -> Experiment:
    values = {"data": str(data), "partition": "natural", "rounds": rounds, "cohort": 1.0, "epochs": 2, "batch": 10}
    return choose({**values, "lr": 0.03, "seed": seed}, None, {"data": {"test_share": 0.5}})


def test_clients_that_contradict_each_other_get_models_of_their_own(tmp_path: Path) -> None:
    data = federations.contradictory(tmp_path / "data.npz", 0)
    result = compare(CompareRequest(setting(data, 5, 0), METHODS, 1, 2), tmp_path / "it")
    assert result["recommended"]["method"] in ("local", "fedavg+ft")
    fedavg = next(each for each in result["methods"] if each["method"] == "fedavg")
    assert fedavg["to_recommended"]["certain"] and fedavg["to_recommended"]["mean"] < -0.3


FEW_ROUNDS = {"identical": 4}
"""Where methods are still learning when they end: then the one that trains longest must not win for that."""
RIGHT = {
    "identical": {"fedavg"},
    "tiny": {"fedavg"},
    "contradictory": {"local", "fedavg+ft", "fedper"},
    "domains": {"fedavg+ft", "fedper"},
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("federation", RIGHT)
def test_the_right_answer(federation: str, seed: int, tmp_path: Path) -> None:
    data = getattr(federations, federation)(tmp_path / "data.npz", seed)
    what = CompareRequest(setting(data, 10, seed), (*METHODS, "fedper"), 3, 3)
    assert compare(what, tmp_path / "it")["recommended"]["method"] in RIGHT[federation]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("federation", FEW_ROUNDS)
def test_the_right_answer_after_few_rounds(federation: str, seed: int, tmp_path: Path) -> None:
    """Nobody is recommended for being personal where fine-tuning is only more training."""
    data = getattr(federations, federation)(tmp_path / "data.npz", seed)
    what = CompareRequest(setting(data, FEW_ROUNDS[federation], seed), METHODS, 1, 3)
    answer = compare(what, tmp_path / "it")["recommended"]
    assert answer["method"] in RIGHT[federation]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_no_winner_where_all_are_equal(seed: int, tmp_path: Path) -> None:
    data = federations.noise(tmp_path / "data.npz", seed)
    what = CompareRequest(setting(data, 10, seed), (*METHODS, "fedper"), 3, 3)
    answer = compare(what, tmp_path / "it")["recommended"]
    assert not answer["certain"]
