"""`motet compare` on a user's table: splits, rounds that end by themselves, nets that are tried, yardsticks."""

import csv
import json
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import federations
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from test_tune import Nobody

from motet.api.studies import Effort, ending_by_validation
from motet.config.experiment import Experiment, read, resolve
from motet.config.short_names import choose
from motet.data import build
from motet.errors import MotetError
from motet.metrics.registry import ACCURACY, LOSS
from motet.runs.record import Record
from motet.studies import yardsticks
from motet.studies.compare import CompareRequest, combined, compare_methods
from motet.studies.space import TABLE_NETS
from motet.studies.study_methods import prepare_methods
from motet.studies.tuning import Trial, Tuned, best_of
from motet.studies.yardsticks import ALONE, ALONE_LINEAR, POOLED_LINEAR, POOLED_TREES, measure_yardsticks


def write_table(path: Path, clients: int = 3, rows: int = 60) -> Path:
    """Clients whose classes follow the same line, moved by a constant of each client's own."""
    rng = np.random.default_rng(0)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["a", "b", "site", "kind"])
        for client in range(clients):
            for a, b in rng.normal(size=(rows, 2)):
                writer.writerow([f"{a:.4f}", f"{b:.4f}", f"s{client}", "yes" if a - b + client > 1 else "no"])
    return path


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_table(tmp_path_factory.mktemp("table") / "t.csv")


def experiment(table: Path, **more: Any) -> Experiment:
    asked = {"data": str(table), "label": "kind", "client": "site", **more}
    return choose(asked, None, {"rounds": {"most": 12, "patience": 3}})


@pytest.fixture(scope="module")
def compared(table: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("compare") / "it"
    asked = CompareRequest(
        experiment(table), ("local", "fedavg", "scaffold", "superfed-mm"), 2, 1, repeats=2, yardsticks=True
    )
    found = compare_methods(asked, folder, 1, lambda total: nullcontext(Nobody()))
    return folder, json.loads(found.to_json())


@pytest.mark.parametrize(
    ("choices", "sentence"),
    [
        ({"metric": "rmse"}, "scoring.metric 'rmse' is for numbers as targets, and the label holds classes"),
        ({"metric": "auroc", "label": "a"}, "scoring.metric 'auroc' needs classes, and the target 'a' is a number"),
        ({"threshold": "f1", "label": "a"}, "scoring.threshold: 'f1' is for two classes, and the label is a number"),
    ],
)
def test_what_no_method_can_is_said_before_anything_runs(
    table: Path, choices: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    """Else every trial of every method fails with the same sentence, and the folder is taken."""
    asked = CompareRequest(experiment(table, **choices), ("local", "fedavg"), 1, 1)
    with pytest.raises(MotetError, match=re.escape(sentence)):
        compare_methods(asked, tmp_path / "it", 1, lambda total: nullcontext(Nobody()))
    assert not (tmp_path / "it").exists()


# ---------------------------------------------------------------- splits, rounds, rows


def test_each_split_has_its_own_tuning_and_test_rows(compared: tuple[Path, dict[str, Any]]) -> None:
    folder, result = compared
    runs = {each["method"]: each["runs"] for each in result["methods"]}
    assert sorted(runs["fedavg"]) == ["runs/fedavg-split0-seed0", "runs/fedavg-split1-seed0"]
    experiments = [Record(folder / run).experiment for run in sorted(runs["fedavg"])]
    assert [each.data.resplit for each in experiments] == [0, 1]
    tests = [build(each.data, each.seed).clients[0].test.x for each in experiments]
    assert tests[0].shape == tests[1].shape and not (tests[0] == tests[1]).all()
    for split in (0, 1):
        trial = Record(folder / "tuning" / f"fedavg-split{split}" / "trial-0").experiment
        assert trial.data.resplit == split and trial.scoring.test == "none"
        assert trial.checkpoint.every == "auto"  # no rung from where it is resumed: it is saved by the clock


def test_last_runs_have_the_best_number_of_rounds_and_learn_from_validation_rows(
    compared: tuple[Path, dict[str, Any]],
) -> None:
    folder, result = compared
    journal = [json.loads(line) for line in (folder / "tuning/fedavg-split0/trials.jsonl").read_text().splitlines()]
    judged = [line for line in journal if "score" in line]
    assert {line["round"] for line in judged} and all(line["loss"] > 0 for line in judged)
    for each in result["methods"]:
        final = Record(folder / each["runs"][0]).experiment
        assert isinstance(final.rounds.count, int) and final.rounds.horizon == 12
        validates = each["method"] == "superfed-mm"  # which chooses λ by them
        assert (final.data.val_share > 0) == validates
    fedavg = Record(folder / "runs/fedavg-split0-seed0")
    chosen = [line["round"] for line in judged if line["trial"] == _chosen(folder, journal)][-1]
    assert fedavg.experiment.rounds.count == chosen == len(fedavg.rounds)
    train = fedavg.experiment.data
    with_validation = train.model_copy(update={"val_share": 0.2})
    counts = [[len(c.train) for c in build(data, 0).clients] for data in (train, with_validation)]
    assert all(more > fewer for more, fewer in zip(*counts, strict=True))


def _chosen(folder: Path, journal: list[dict[str, Any]]) -> int:
    """Return the trial whose setting the last run of FedAvg on the first split has."""
    final = Record(folder / "runs/fedavg-split0-seed0").experiment
    drawn = {line["trial"]: line["options"] for line in journal if "options" in line}
    return next(
        trial
        for trial, options in drawn.items()
        if options["local.lr"] == final.local.lr and options["net.name"] == final.net.name
    )


def test_what_is_recommended_runs_as_it_is(compared: tuple[Path, dict[str, Any]]) -> None:
    folder, result = compared
    recommended = resolve(read(folder / "recommended.toml"))
    assert recommended.method.startswith(result["recommended"]["method"])
    assert isinstance(recommended.rounds.count, int) and recommended.data.resplit == 0


def test_whoever_asks_for_a_recall_is_told_what_the_thresholds_give(table: Path, tmp_path: Path) -> None:
    """Of every method, on test rows, mean over the splits; and that validation rows were kept for it."""
    asked = CompareRequest(experiment(table, threshold="recall>=0.8"), ("local", "fedavg"), 1, 1, repeats=2)
    found = compare_methods(asked, tmp_path / "it", 1, lambda total: nullcontext(Nobody()))
    for method in found.methods:
        values = [json.loads((tmp_path / "it" / run / "thresholds.json").read_text()) for run in method.runs]
        recall, precision = (
            np.mean([of["on_test"]["personal"][name] for of in values]) for name in ("recall", "precision")
        )
        assert f"{100 * recall:.1f} % and {100 * precision:.1f} %" in found.recommended.reason
    assert "thresholds that validation rows chose for recall>=0.8" in found.recommended.reason
    assert any("validation rows are kept for the thresholds" in note for note in found.notes)


def test_rules_of_sgd_take_part_with_sgd(table: Path) -> None:
    asked = experiment(table).with_({"local.optimizer": "adam", "local.lr": 0.01})
    study = prepare_methods(["fedavg", "scaffold"], asked)
    assert {each.name: each.experiment.local.optimizer for each in study.methods} == {
        "fedavg": "adam",
        "scaffold": "sgd",
    }


def test_both_nets_are_tried_for_every_method(table: Path) -> None:
    study = prepare_methods(["fedavg", "fedper", "scaffold"], experiment(table))
    assert all(each.nets == TABLE_NETS for each in study.methods if each.name != "fedper")
    named = prepare_methods(["fedavg"], experiment(table, net="logistic"))
    assert named.methods[0].nets == () and named.methods[0].experiment.net.name == "logistic"


# ---------------------------------------------------------------- which setting


def trial(number: int, score: float, loss: float, sign: int = 1) -> Trial:
    return Trial(number, {"local.lr": 0.01 * (number + 1)}, 5, score, loss, sign)


def test_settings_within_a_standard_error_are_told_apart_by_their_loss() -> None:
    trials = [trial(0, 0.80, 0.50), trial(1, 0.82, 0.60), trial(2, 0.70, 0.10)]
    assert best_of(trials, rows=100).number == 0  # √(0.82·0.18/100) = 0.038
    assert best_of(trials, rows=100_000).number == 1
    assert best_of(trials, rows=0).number == 1
    lower = [trial(0, 0.5, 0.5, -1), trial(1, 0.3, 0.3, -1)]
    assert best_of(lower, rows=10).number == 1


def test_splits_together_choose_by_the_mean_over_them() -> None:
    def tuned(*scores: float | None) -> Tuned:
        trials = [
            Trial(i, {"lr": i}, 4 + i, score, 0.5, to_the_end=score is not None) for i, score in enumerate(scores)
        ]
        return Tuned("fedavg", trials, {"lr": 0}, rounds=4)

    found = combined([tuned(0.9, 0.8, 0.99), tuned(0.5, 0.8, None)], rows=10_000)
    assert found.setting == {"lr": 1} and found.rounds == 5  # the third ran to the end on one split alone
    assert [each.score for each in found.trials] == [pytest.approx(0.7), pytest.approx(0.8), pytest.approx(0.99)]


# ---------------------------------------------------------------- effort


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        ({}, (3, 1, 6)),
        ({"client": None}, (1, 3, 6)),
    ],
)
def test_rows_of_real_clients_are_split_again(table: Path, choices: Any, expected: tuple[int, int, int]) -> None:
    found = Effort().of(experiment(table, **choices), "")
    assert (found["repeats"], found["seeds"], found["trials"]) == expected
    digits = Effort().of(choose({"data": "digits"}), "")
    assert (digits["repeats"], digits["seeds"], digits["trials"]) == (1, 3, 5)
    assert found["yardsticks"] and not digits["yardsticks"]
    assert Effort(yardsticks=True).of(choose({"data": "digits"}), "")["yardsticks"]
    with pytest.raises(MotetError, match="--repeats is 0"):
        Effort(repeats=0).of(choose({"data": "digits"}), "--")
    with pytest.raises(MotetError, match=r"--repeats is 2, but data\.time_column says which rows are tested"):
        Effort(repeats=2).of(experiment(table, time_column="a"), "--")


def test_rounds_of_a_comparison_end_by_themselves_unless_named() -> None:
    assert ending_by_validation({"data": "digits", "rounds": None})["rounds"] == "auto"
    assert ending_by_validation({"rounds": 3})["rounds"] == 3
    assert "rounds" not in ending_by_validation({}, {"rounds.count": 7})
    assert "rounds" not in ending_by_validation({"protocol": "dbe"})


# ---------------------------------------------------------------- yardsticks


def test_pooled_and_alone_are_what_scikit_learn_gives_on_the_same_rows(table: Path) -> None:
    asked = prepare_methods(["fedavg"], experiment(table)).methods[0].experiment
    found = {each.name: each for each in measure_yardsticks([(asked, 2)])}
    assert set(found) == {POOLED_LINEAR, POOLED_TREES, ALONE, ALONE_LINEAR}
    federation = build(asked.data, asked.seed)
    parts = {
        c.id: [(s.prepare(s.x).double().numpy(), s.y.numpy()) for s in (c.train, c.val, c.test)]
        for c in federation.clients
    }
    c = float(found[POOLED_LINEAR].settings[0].removeprefix("C="))
    x, y = (np.concatenate([part[i] for each in parts.values() for part in each[:2]]) for i in (0, 1))
    pooled = LogisticRegression(C=c, max_iter=500).fit(x, y)
    assert len(found[POOLED_LINEAR].columns) == 2  # as many as the methods have runs
    for client, (_, _, (x_test, y_test)) in parts.items():
        assert found[POOLED_LINEAR].columns[0][client] == pytest.approx(pooled.score(x_test, y_test), abs=1e-12)
    assert all(0 <= value <= 1 for value in found[ALONE].columns[0].values())


def test_yardsticks_never_learn_from_test_rows(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = prepare_methods(["fedavg"], experiment(table)).methods[0].experiment
    rows = yardsticks._rows(asked)
    assert rows is not None
    seen: list[int] = []
    plain = yardsticks._fitted
    monkeypatch.setattr(
        yardsticks, "_fitted", lambda model, part, classes: (seen.append(len(part)), plain(model, part, classes))[1]
    )
    yardsticks._on_split(rows, ACCURACY, 0)
    most = sum(len(c.train) + len(c.val) for c in rows.clients)
    tests = {row.tobytes() for c in rows.clients for row in c.test.x}
    learned = {row.tobytes() for c in rows.clients for part in (c.train, c.val) for row in part.x}
    assert max(seen) == most and not tests & learned


def test_a_client_of_one_class_gets_that_class() -> None:
    part = yardsticks.SomeRows(np.zeros((5, 2)), np.ones(5, np.int64))
    logits = yardsticks._fitted(LogisticRegression(), part, 3)(np.ones((2, 2)))
    assert logits.argmax(1).tolist() == [1, 1]
    assert yardsticks.value_of(LOSS, logits, logits.argmax(1)) == pytest.approx(0.0, abs=1e-9)
    assert yardsticks.value_of(ACCURACY, logits[:0], logits.argmax(1)[:0]) is None


def test_the_file_has_them_beside_the_recommended_method(compared: tuple[Path, dict[str, Any]]) -> None:
    _, result = compared
    mine = next(each for each in result["methods"] if each["method"] == result["recommended"]["method"])
    for each in result["yardsticks"]:
        lead = each["personal"]["mean"] - mine["personal"]["mean"]
        assert each["to_recommended"]["mean"] == pytest.approx(lead)
    assert {each["name"] for each in result["yardsticks"]} == {POOLED_LINEAR, POOLED_TREES, ALONE, ALONE_LINEAR}


# ---------------------------------------------------------------- right answers


def answer_on(table: Path, folder: Path, methods: tuple[str, ...], seed: int, **more: Any) -> dict[str, Any]:
    rounds = {"rounds": {"most": more.pop("most", 30), "patience": 6}}
    asked = choose({"data": str(table), "label": "kind", "client": "site", "seed": seed, **more}, None, rounds)
    request = CompareRequest(asked, methods, 4, 1, repeats=3, yardsticks=True)
    return json.loads(compare_methods(request, folder, 1, lambda total: nullcontext(Nobody())).to_json())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_where_accuracy_says_nothing_auroc_decides(seed: int, tmp_path: Path) -> None:
    table = federations.imbalanced(tmp_path / "t.csv", seed)
    found = answer_on(table, tmp_path / "auto", ("local", "fedavg"), seed)
    assert found["metric"] == "auroc"
    local = next(each for each in found["methods"] if each["method"] == "local")
    assert found["recommended"]["method"] == "fedavg"
    assert local["to_recommended"]["certain"] and local["to_recommended"]["mean"] < -0.05
    by_accuracy = answer_on(table, tmp_path / "accuracy", ("local", "fedavg"), seed, metric="accuracy")
    values = [each["personal"]["mean"] for each in by_accuracy["methods"]]
    assert max(values) - min(values) < 0.03 and max(values) - by_accuracy["majority"] < 0.03


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_identical_clients_with_few_rounds_allowed(seed: int, tmp_path: Path) -> None:
    data = federations.identical(tmp_path / "data.npz", seed)
    values = {"data": str(data), "partition": "natural", "cohort": 1.0, "epochs": 2, "batch": 10, "lr": 0.03}
    asked = choose({**values, "seed": seed}, None, {"data": {"test_share": 0.5}, "rounds": {"most": 5}})
    assert asked.rounds.count == "auto"
    request = CompareRequest(asked, ("local", "fedavg", "fedavg+ft"), 1, 3)
    found = compare_methods(request, tmp_path / "it", 1, lambda total: nullcontext(Nobody()))
    assert found.recommended.method == "fedavg"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_where_pooling_beats_everything_the_answer_says_so_first(seed: int, tmp_path: Path) -> None:
    table = federations.checkered(tmp_path / "t.csv", seed)
    found = answer_on(table, tmp_path / "it", ("local", "fedavg", "fedavg+ft"), seed, most=10)
    pooled = next(each for each in found["yardsticks"] if each["name"] == POOLED_TREES)
    assert pooled["to_recommended"]["certain"] and pooled["to_recommended"]["mean"] > 0.1
    assert found["recommended"]["reason"].startswith(("Ahead of", "Do not federate"))
