"""The metric by which models are judged is a choice, and is the same in the record, in tables and in a comparison."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import motet
from motet.cli import main
from motet.config.experiment import resolve
from motet.config.scoring_section import COUNTED_SCORES, MOST_FREQUENT, SCORES_AND_LABELS
from motet.data import build
from motet.errors import MotetError
from motet.messages.task import EVERY_TASK, SITE_TASKS, Task
from motet.metrics.metric import ACCURACY
from motet.metrics.registry import METRICS
from motet.metrics.wording import megabytes, points, signed_written, title_of_metric, with_unit, written
from motet.report.finished import read_finished
from motet.report.tables.compared import compared_table
from motet.report.tables.runs import best_of
from motet.report.tables.seeds import TableLine
from motet.server.assembly import assemble, settle, workplace_of
from motet.testing.twin import tiny

ROWS = 60
RANK = r"(?:\.\d{3}|1\.000)"
FEW = {"rounds": 3, "cohort": 1.0, "lr": 0.3, "engine.name": "inline"}


def table(path: Path, rare: float, clients: int = 4, one_class: bool = False) -> str:
    """Rows of two classes, one of them rare, which columns tell about; the last client may hold one class alone."""
    rng = np.random.default_rng(1)
    lines = ["who,a,b,outcome"]
    for client in range(clients):
        y = np.arange(ROWS) < (0 if one_class and client == clients - 1 else round(rare * ROWS))
        x = rng.normal(size=(ROWS, 2)) + 0.8 * y[:, None]
        lines += [f"site {client},{a:.4f},{b:.4f},{'yes' if yes else 'no'}" for (a, b), yes in zip(x, y, strict=True)]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.fixture(scope="module")
def rare(tmp_path_factory: pytest.TempPathFactory) -> str:
    return table(tmp_path_factory.mktemp("rare") / "rare.csv", 0.17, one_class=True)


@pytest.fixture(scope="module")
def judged(rare: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    out = tmp_path_factory.mktemp("judged") / "run"
    return motet.run(
        data=rare, label="outcome", client="who", method="fedavg+ft", out=out, **{"scoring.metrics": ["f1"]}, **FEW
    )


# ---------------------------------------------------------------- which metric


def settled(data: str, **scoring: Any) -> Any:
    return settle(resolve({"data": {"name": data, "label": "outcome", "client": "who"}, "scoring": scoring})).scoring


def test_the_labels_decide_where_the_user_does_not(rare: str, tmp_path: Path) -> None:
    balanced = table(tmp_path / "balanced.csv", 0.4)
    assert settled(rare).metric == "auroc" and settled(balanced).metric == "accuracy"
    assert settled(rare, metric="balanced_accuracy").metric == "balanced_accuracy"
    assert settle(resolve({})).scoring.metric == "accuracy"  # data by name
    seldom = table(tmp_path / "seldom.csv", 0.02)  # one such row of each client, most of whose test rows lack it
    assert settled(seldom).metric == "accuracy"


def test_what_clients_tell_is_declared(rare: str) -> None:
    assert settled(rare).tells == {COUNTED_SCORES, MOST_FREQUENT}
    assert settled(rare, pooling="exact").tells == {SCORES_AND_LABELS, MOST_FREQUENT}
    assert settled(rare, pooling="none", majority=False).tells == frozenset()
    assert settled(rare, metric="accuracy").tells == {MOST_FREQUENT}


@pytest.mark.parametrize("command", [["run"], ["compare"], ["tune"]])
def test_an_unknown_metric_is_refused_before_anything(
    command: list[str], rare: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = ["--data", rare] if command == ["run"] else [rare]
    words = [
        *command,
        *data,
        "--label",
        "outcome",
        "--client",
        "who",
        "--metric",
        "aurok",
        "--out",
        str(tmp_path / "o"),
    ]
    assert main(words) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "unknown metric (scoring.metric) 'aurok': did you mean 'auroc'?" in said and "log_loss" in said
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("metric", ["confusion", "calibration"])
def test_a_metric_of_a_run_is_no_headline(metric: str) -> None:
    with pytest.raises(MotetError, match=rf"unknown metric \(scoring.metric\) '{metric}'"):
        settle(resolve({"scoring": {"metric": metric}}))


def test_ranks_cannot_be_weighted_by_class() -> None:
    with pytest.raises(
        MotetError, match=r"scoring.metric is 'auroc', which is no mean over rows.* scoring.test = 'split'"
    ):
        motet.run(clients=4, rounds=1, metric="auroc", **{"scoring.test": "common"})
    assert settle(resolve({"scoring": {"metric": "auroc"}})).scoring.test == "split"
    assert settle(resolve({"scoring": {"metric": "brier"}})).scoring.test == "common"


# ---------------------------------------------------------------- in the record and its tables


def test_a_run_is_judged_by_it(judged: Any) -> None:
    summary = judged.summary
    assert summary["reported"]["figure"] == "personal.split.auroc.mean" and summary["reported"]["metric"] == "auroc"
    rows = [json.loads(line) for line in (judged.folder / "clients.jsonl").read_text().splitlines()]
    last = [row for row in rows if row["round"] == 3]
    values = [row["personal.split.auroc"] for row in last if "personal.split.auroc" in row]
    assert len(values) == 3  # of four: one client holds one class alone
    assert judged.personal.split.personal_models == pytest.approx(np.mean(values))
    assert all(not name.startswith("pool.") for row in rows for name in row)
    notes = " ".join(summary["notes"])
    assert "auroc: 1 of 4 clients have none" in notes and "site 3" in notes and "f1: of the class 'yes'" in notes


def test_tables_speak_of_it(judged: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(judged.folder)]) == 0
    text = capsys.readouterr().out
    assert "Values are AUROC" in " ".join(text.split()) and re.search(rf"fedavg\+ft +{RANK} +{RANK} +{RANK}", text)
    assert "Accuracies" not in text and "most" in text  # beside the accuracy
    assert re.search(r"the rarer class, yes, has 1\d\.\d % of the rows", " ".join(text.split()))
    assert main(["show", str(judged.folder), "--clients"]) == 0
    text = capsys.readouterr().out
    assert re.search(rf"site 0 +48 +12 +{RANK} +{RANK}", text) and re.search(r"site 3 +48 +12 +– +–", text)


def test_pooled_figures_of_a_run(rare: str, judged: Any, tmp_path: Path) -> None:
    """Binned counts come near what exact scores give, whichever process made them."""
    exact = motet.run(
        data=rare,
        label="outcome",
        client="who",
        method="fedavg+ft",
        metric="auroc",
        **{"scoring.metrics": ["f1"]},
        out=tmp_path / "exact",
        **{**FEW, "engine.name": "pool", "engine.workers": 2, "scoring.pooling": "exact"},
    )
    for model in ("personal", "generic"):
        binned, whole = (of.figures[f"{model}.split.auroc.pooled"] for of in (judged, exact))
        assert binned == pytest.approx(whole, abs=0.02) and binned != judged.figures[f"{model}.split.auroc.mean"]
        assert judged.figures[f"{model}.split.f1.pooled"] == exact.figures[f"{model}.split.f1.pooled"]
    assert judged.figures["personal.split.auroc.mean"] == exact.figures["personal.split.auroc.mean"]


def test_lower_is_better(rare: str, tmp_path: Path) -> None:
    """With the Brier score the best round, the best run and the clients that lose are those of low values."""
    more = {"scoring.report": "best_on_validation", "data.val_share": 0.2, "scoring.every": 1, **FEW, "rounds": 4}
    runs = [
        motet.run(
            data=rare,
            label="outcome",
            client="who",
            method="fedavg+ft",
            metric="brier",
            out=tmp_path / str(lr),
            **{**more, "lr": lr},
        )
        for lr in (0.01, 0.3)
    ]
    for run in runs:
        rows = [json.loads(line) for line in (run.folder / "rounds.jsonl").read_text().splitlines()]
        scored = {
            row["round"]: row["personal.validation.brier.mean"]
            for row in rows
            if "personal.validation.brier.mean" in row
        }
        assert run.summary["reported"]["round"] == min(scored, key=lambda r: scored[r])
        assert run.summary["reported"]["higher_is_better"] is False
        assert run.figures["personal.split.brier.maximum"] >= run.figures["personal.split.brier.mean"]
    lines = [TableLine((read_finished(run.folder),)) for run in runs]
    low = min(lines, key=lambda line: line.headline()[0])
    assert best_of(lines, ["local.lr"]) is low


def test_a_metric_of_your_own(rare: str, tmp_path: Path) -> None:
    code = tmp_path / "mine.py"
    code.write_text(
        "def off(logits, y):\n    return float((logits.argmax(1) != y).sum() / len(y))\n"
        "\noff.higher_is_better = False\n"
    )
    run = motet.run(
        data=rare, label="outcome", client="who", method="fedavg", metric=f"{code}:off", out=tmp_path / "r", **FEW
    )
    assert run.summary["reported"]["figure"] == "personal.split.off.mean"
    assert run.summary["reported"]["higher_is_better"] is False
    assert run.figures["personal.split.off.mean"] == pytest.approx(1 - run.figures["personal.split.accuracy.mean"])
    assert read_finished(run.folder).metric.higher_is_better is False


def test_the_confusion_matrix(judged: Any) -> None:
    found = motet.load(judged.folder)
    measured = motet.run(
        data=found.summary["data"],
        label="outcome",
        client="who",
        method="fedavg+ft",
        **{"scoring.metrics": ["confusion(clients=1)"]},
        **FEW,
    )
    pictures = {each["name"]: each for each in measured.figures_learned}
    whole, one = (
        np.array(pictures[name]["series"][0]["values"]) for name in ("confusion-personal", "confusion-personal-0")
    )
    assert whole.sum() == 4 * 12 and one.sum() == 12 and pictures["confusion-personal"]["x"]["ticks"] == ("no", "yes")
    assert np.trace(whole) / whole.sum() == pytest.approx(measured.figures["personal.split.accuracy.by_samples"])


# ---------------------------------------------------------------- the level of the most frequent class


def test_the_majority_level_is_that_of_the_test_rows(judged: Any) -> None:
    rows = [json.loads(line) for line in (judged.folder / "clients.jsonl").read_text().splitlines()]
    values = [row["majority.split.accuracy"] for row in rows if row["round"] == 3]
    experiment = read_finished(judged.folder).experiment
    clients = build(experiment.data, experiment.seed).clients
    assert values == pytest.approx([float((client.test.y == 0).double().mean()) for client in clients])
    assert len(set(values)) > 1 and values[3] == 1.0
    assert judged.figures["majority.split.accuracy.mean"] == pytest.approx(np.mean(values))


# ---------------------------------------------------------------- in words


def test_values_in_words() -> None:
    auroc, loss = METRICS["auroc"], METRICS["loss"]
    assert (written(0.8123, ACCURACY), written(0.8123, auroc), written(1.0, auroc), written(None, auroc)) == (
        "81.2",
        ".812",
        "1.000",
        "–",
    )
    assert (written(12.345, loss), written(0.00012, loss), written(0.0, auroc)) == ("12.3", "0.00012", ".000")
    assert (with_unit(0.5, ACCURACY), with_unit(0.5, auroc)) == ("50.0 %", ".500")
    assert (points(-0.031, ACCURACY), points(-0.031, auroc), points(1.5, loss)) == ("−3.1 points", "−.031", "+1.500")
    assert (signed_written(0.0001, ACCURACY), signed_written(0.00001, auroc)) == ("0.0", ".000")
    assert (title_of_metric(ACCURACY), title_of_metric(auroc)) == ("accuracy in %", "AUROC")


# ---------------------------------------------------------------- what a real site tells


@pytest.mark.parametrize(("pooling", "told"), [("exact", set()), ("binned", {"bins"}), ("none", set())])
def test_a_real_site_tells_no_score_of_a_row(pooling: str, told: set[str]) -> None:
    experiment = tiny("fedavg", scoring={"metric": "auroc", "test": "split", "pooling": pooling})
    played = assemble(experiment)
    for allowed, expected in (
        (SITE_TASKS, told),
        (EVERY_TASK, told or ({"scores", "labels"} if pooling == "exact" else told)),
    ):
        place = workplace_of(played.experiment, played.federation, played.federation_facts, allowed)
        message = dict(place.method.broadcast(place.method.start(), 0)) | {"score.common": False}
        reply = place.perform(Task("score", 0, 1, message), {}).reply
        assert reply is not None and "personal.split.auroc" in reply
        assert {name.split(".")[1] for name in reply if name.startswith("pool.")} == expected


# ---------------------------------------------------------------- in a comparison


@pytest.fixture(scope="module")
def comparison(rare: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Two methods on the table with a rare class, which makes AUROC decide."""
    out = tmp_path_factory.mktemp("comparison") / "study"
    words: dict[str, Any] = {"methods": "local,fedavg", "trials": 2, "seeds": 1, "repeats": 1, "rounds": 3, "jobs": 1}
    return motet.compare(rare, label="outcome", client="who", out=out, **words)


def test_a_comparison_is_judged_by_it(comparison: Any) -> None:
    file = comparison.file
    assert (file.metric, comparison.metric, file.figure) == ("auroc", "auroc", "personal.split.auroc.mean")
    for method in file.methods:
        runs = [motet.load(comparison.folder / run) for run in method.runs]
        assert method.personal.mean == pytest.approx(np.mean([run.figures[file.figure] for run in runs]))
        assert method.pooled == pytest.approx(np.mean([run.figures["personal.split.auroc.pooled"] for run in runs]))
        minima = [run.figures["personal.split.auroc.minimum"] for run in runs]
        assert method.worst_client == pytest.approx(np.mean(minima))
    said = " ".join([file.recommended.reason, *file.notes])
    assert "AUROC" in said and "accuracy" not in said.lower()
    assert "Not compared, for they lack test data, test rows of both kinds or a model somewhere: site 3." in said


def test_settings_are_chosen_by_it(comparison: Any) -> None:
    """The score of a trial is the AUROC of its record on validation data, at the round it ended."""
    for trial in (comparison.folder / "tuning" / "fedavg").glob("trial-*"):
        rows = [json.loads(line) for line in (trial / "rounds.jsonl").read_text().splitlines()]
        scores = [each.score for each in next(m for m in comparison.file.methods if m.method == "fedavg").trials]
        found = [row.get("personal.validation.auroc.mean") for row in rows]
        assert any(value in scores for value in found if value is not None)


def test_a_comparison_says_who_gains(comparison: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert comparison.file.rare_class == "yes" and [row["name"] for row in comparison.clients] == [
        "site 0",
        "site 1",
        "site 2",
    ]
    first = comparison.clients[0]
    assert first["test"] == 12 and 0 < first["rare"] < 0.2 and first["alone"] == first["local"]
    assert first["verdict"] in ("gains", "loses", "too small to tell")
    Console(width=120).print(compared_table(comparison.file))
    text = capsys.readouterr().out
    assert "Clients: AUROC alone (local), with FedAvg's one model" in " ".join(text.split())
    assert re.search(rf"site 0 +\d+ +12 +\d+\.\d % +{RANK} +{RANK} +{RANK}", text)


def test_a_few_bytes_are_not_shown_as_none() -> None:
    assert [megabytes(n) for n in (0, 50, 96, 2560, 4200, 9999, 1_234_000)] == [
        "0.00",
        "0.00005",
        "0.0001",
        "0.003",
        "0.004",
        "0.01",
        "1.23",
    ]
    assert megabytes(None, 5) == megabytes() == "–"
