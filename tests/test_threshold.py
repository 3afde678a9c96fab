"""Thresholds: chosen on validation rows as a search through all of them would, kept with the models, used by them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import balanced_accuracy_score, f1_score, precision_score, recall_score
from test_routing import write

import motet
from motet.cli import main
from motet.config.threshold_rule import ThresholdRule
from motet.errors import MotetError
from motet.metrics.threshold import GRID, choose, choose_by_counts, counts_at
from motet.runs.record import Record
from motet.runs.served_models import ModelWorkbench

pandas = pytest.importorskip("pandas")

RULES = ["f1", "balanced_accuracy", "recall>=0.9", "recall>=0.5", "precision>=0.8", "precision>=1"]
METRICS = {"f1": f1_score, "balanced_accuracy": balanced_accuracy_score, "recall": recall_score,
           "precision": precision_score}  # fmt: skip


def value(rule: str, y: Any, said: Any) -> tuple[float, ...]:
    """How good predictions are by a rule: what is asked, if it is asked for at least so much, comes first."""
    metric, _, least = rule.partition(">=")
    kind = {"average": "binary"} if metric == "f1" else {}
    found = METRICS[metric](y, said, **kind, **({} if metric == "balanced_accuracy" else {"zero_division": 0.0}))
    if not least:
        return (found,)
    other = METRICS["precision" if metric == "recall" else "recall"](y, said, zero_division=0.0)
    return (1.0, other) if found >= float(least) - 1e-12 else (0.0, found)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("seed", range(6))
def test_no_other_threshold_is_better(rule: str, seed: int) -> None:
    """Against scikit-learn at every threshold that divides the rows, with ties and a rare class."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(8, 60))
    y = (rng.random(n) < (0.1, 0.5)[seed % 2]).astype(int)
    y[:2] = 0, 1
    p = np.round(1 / (1 + np.exp(-(rng.normal(size=n) + 1.5 * y - 2))), 2 if seed % 3 else 6)
    cut = choose(torch.from_numpy(p), torch.from_numpy(y), ThresholdRule.read(rule))
    assert cut is not None
    best = max(value(rule, y, p >= t) for t in np.unique(p))
    assert value(rule, y, p >= cut.value) == pytest.approx(best)
    assert cut.reached == (len(best) == 1 or best[0] == 1.0)
    assert np.abs(p - cut.value).min() > 0 or cut.value in p


@pytest.mark.parametrize("rule", RULES)
def test_counts_of_several_clients_choose_what_their_rows_together_would(rule: str) -> None:
    rng = np.random.default_rng(3)
    y = (rng.random(90) < 0.3).astype(int)
    p = 1 / (1 + np.exp(-(rng.normal(size=90) + 1.5 * y - 1)))
    parts = [slice(0, 20), slice(20, 70), slice(70, 90)]
    counts = sum(counts_at(torch.from_numpy(p[part]), torch.from_numpy(y[part]), GRID) for part in parts)
    assert isinstance(counts, torch.Tensor)
    cut = choose_by_counts(counts, float(y.sum()), float((1 - y).sum()), ThresholdRule.read(rule))
    assert cut is not None and float(GRID[(GRID - cut.value).abs().argmin()]) == cut.value
    divided = {tuple(p >= t) for t in GRID.numpy() if (p >= t).any()}  # most thresholds divide the rows as others do
    best = max(value(rule, y, said) for said in divided)
    assert value(rule, y, p >= cut.value) == pytest.approx(best)


def test_rows_of_one_class_choose_nothing() -> None:
    p = torch.tensor([0.2, 0.4])
    assert choose(p, torch.tensor([0, 0]), ThresholdRule("f1")) is None
    assert choose(p, torch.tensor([1, 1]), ThresholdRule("f1")) is None
    assert choose_by_counts(counts_at(p, torch.tensor([1, 1]), GRID), 2.0, 0.0, ThresholdRule("f1")) is None


@pytest.mark.parametrize("text", ["recall", "recall>0.9", "recall>=2", "recall>=0", "f2", "precision>=x", "0.5"])
def test_a_rule_that_is_none(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--threshold", text]) == 2
    said = capsys.readouterr().err
    assert "scoring.threshold" in said and '"recall>=0.9"' in said and said.count("\n") == 1


# ---------------------------------------------------------------- in a run


def patients(seed: int = 0, rows: int = 720) -> list[dict[str, Any]]:
    """Hospitals with a rare outcome; in one of them, one of sixty has it, too few to choose a threshold by."""
    rng, made = np.random.default_rng(seed), []
    for i in range(rows):
        site, x, z = ("Bern", "Chur", "Genf")[i % 3], rng.normal(), rng.normal()
        rare = (site != "Genf" or i % 180 == 2) and x + 0.7 * rng.normal() > 1.1
        made.append({"x": f"{x:.3f}", "z": f"{z:.3f}", "site": site, "dead": "yes" if rare else "no"})
    return made


ASKED: dict[str, Any] = {
    **{"label": "dead", "client": "site", "rounds": 6, "batch": 20, "lr": 0.1, "method": "fedavg+ft"},
    **{"engine.name": "inline", "data.val_share": 0.3},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> motet.Result:
    folder = tmp_path_factory.mktemp("rare")
    data = write(folder / "all.csv", patients(), ["x", "z", "site", "dead"])
    return motet.run(data=data, threshold="f1", out=folder / "run", **ASKED)


def validation(run: motet.Result, client: int) -> tuple[Any, Any]:
    bench = ModelWorkbench.with_data(Record(run.folder))
    rows = bench.workplace.holdings.clients[client].val
    return rows.prepare.as_given(rows.x), rows.y.numpy()


def test_each_client_has_the_threshold_that_its_validation_rows_choose(run: motet.Result) -> None:
    told = json.loads((run.folder / "thresholds.json").read_text())
    assert told["rule"] == "f1" and [each["own"] for each in told["clients"]] == [True, True, False]
    for client, each in enumerate(told["clients"][:2]):
        x, y = validation(run, client)
        p = run.personal_model(client).predict_proba(x)[:, 1]
        best = max(f1_score(y, p >= t) for t in np.unique(p))
        assert f1_score(y, p >= each["threshold"]) == pytest.approx(best) and each["rows"] == len(y)
        assert run.personal_model(client).threshold == each["threshold"]
    assert told["clients"][2]["threshold"] == told["common"] == run.generic_model().threshold
    x, y = map(np.concatenate, zip(*(validation(run, i) for i in range(3)), strict=True))
    p = run.generic_model().predict_proba(x)[:, 1]
    on_grid = max(f1_score(y, p >= t, zero_division=0.0) for t in GRID.numpy())
    assert f1_score(y, p >= told["common"]) == pytest.approx(on_grid)
    notes = " ".join(run.summary.notes)
    assert "fewer than 5 validation rows of one of the classes" in notes and "'Genf'" in notes and "p(yes)" in notes


def test_the_record_says_what_the_thresholds_give_on_test_rows(run: motet.Result) -> None:
    bench = ModelWorkbench.with_data(Record(run.folder))
    said: dict[str, list[Any]] = {"personal": [], "generic": []}
    labels: list[Any] = []
    for client in range(3):
        rows = bench.workplace.holdings.clients[client].test
        x = rows.prepare.as_given(rows.x)
        labels += rows.y.tolist()
        said["personal"] += run.personal_model(client).predict(x).tolist()
        said["generic"] += run.generic_model().predict(x).tolist()
    told = json.loads((run.folder / "thresholds.json").read_text())["on_test"]
    for model, names in said.items():
        predicted = [name == "yes" for name in names]
        for name, metric in METRICS.items():
            assert told[model][name] == pytest.approx(metric(labels, predicted)), (model, name)
    assert f"{100 * told['personal']['recall']:.1f} % and precision" in " ".join(run.summary.notes)


def test_what_leaves_a_client_for_it_is_declared(run: motet.Result, tmp_path: Path) -> None:
    assert any("above many thresholds" in each for each in run.summary.tells)
    plain = motet.run(data=run.folder.parent / "all.csv", out=tmp_path / "run", **{**ASKED, "rounds": 1})
    assert not any("threshold" in each for each in plain.summary.tells)
    assert not (tmp_path / "run" / "thresholds.json").exists() and plain.generic_model().threshold is None


def test_an_exported_model_uses_its_threshold(run: motet.Result, tmp_path: Path, capsys: Any) -> None:
    assert main(["export", str(run.folder), "--out", str(tmp_path / "models")]) == 0
    assert "predicts yes from " in capsys.readouterr().out
    frame = pandas.DataFrame(patients(1, 90))
    told = json.loads((tmp_path / "models" / "client-0-Bern" / "model.json").read_text())["threshold"]
    model = motet.load_model(tmp_path / "models", "Bern")
    p = model.predict_proba(frame)[:, 1]
    assert told["rule"] == "f1" and told["of_class"] == "yes" and told["own"] and model.threshold == told["value"]
    assert model.predict(frame).tolist() == ["yes" if each >= told["value"] else "no" for each in p]
    assert model.predict(frame).tolist() != ["yes" if each >= 0.5 else "no" for each in p]
    rows = motet.predict(tmp_path / "models", frame, client="site")
    expected = {name: motet.load_model(tmp_path / "models", name).threshold for name in ("Bern", "Chur", "Genf")}
    assert [row["threshold"] for row in rows] == [expected[row["site"]] for row in rows]
    assert [row["prediction"] for row in rows] == ["yes" if r["p(yes)"] >= r["threshold"] else "no" for r in rows]
    assert motet.load_models(tmp_path / "models").predict(frame).tolist() == [row["prediction"] for row in rows]


def test_another_rule_at_export(run: motet.Result, tmp_path: Path) -> None:
    """Chosen anew on the run's validation rows; the run's own file stays as it is."""
    before = (run.folder / "thresholds.json").read_bytes()
    motet.export(run.folder, tmp_path / "models", ["Bern"], threshold="recall >= 1")
    model = motet.load_model(tmp_path / "models", "Bern")
    x, y = validation(run, 0)
    p = run.personal_model(0).predict_proba(x)[:, 1]
    known = model.known.threshold
    assert known is not None and known.rule == "recall>=1"
    assert (p[y == 1] >= known.value).all() and not (p[y == 1] - 1e-3 >= p[y == 1].min()).all()
    assert (run.folder / "thresholds.json").read_bytes() == before
    with pytest.raises(MotetError, match="threshold is 'f3'; accepted"):
        motet.export(run.folder, tmp_path / "more", threshold="f3")


@pytest.mark.parametrize("engine", ["inline", pytest.param("pool", marks=pytest.mark.slow)])
def test_any_engine_and_a_resumed_run_choose_the_same(engine: str, run: motet.Result, tmp_path: Path) -> None:
    data, out = run.folder.parent / "all.csv", tmp_path / "again"
    motet.run(data=data, threshold="f1", out=out, **(ASKED | {"engine.name": engine}))
    chosen = (out / "thresholds.json").read_bytes()
    assert chosen == (run.folder / "thresholds.json").read_bytes()
    (out / "summary.json").unlink()
    (out / "thresholds.json").unlink()
    motet.resume(out)
    assert (out / "thresholds.json").read_bytes() == chosen


def test_without_a_generic_model_all_choose_one_for_who_cannot(run: motet.Result, tmp_path: Path) -> None:
    local = motet.run(data=run.folder.parent / "all.csv", threshold="f1", **(ASKED | {"method": "local"}))
    told = json.loads((local.folder / "thresholds.json").read_text())
    parts = [validation(local, i) for i in range(3)]
    p = np.concatenate([local.personal_model(i).predict_proba(x)[:, 1] for i, (x, _) in enumerate(parts)])
    y = np.concatenate([y for _, y in parts])
    best = max(f1_score(y, p >= t, zero_division=0.0) for t in GRID.numpy())
    assert f1_score(y, p >= told["common"]) == pytest.approx(best)
    assert local.personal_model("Genf").threshold == told["common"]


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"data.val_share": 0.001}, "scoring.threshold: 'f1' is chosen on validation rows, and no client has any"),
        (
            {"label": "site3", "client": None, "clients": 3, "partition": "iid"},
            "is for two classes, and the data have 3",
        ),
    ],
)
def test_data_that_have_no_threshold(more: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    rows = [{**row, "site3": row["site"]} for row in patients()]
    data = write(tmp_path / "all.csv", rows, ["x", "z", "site", "dead", "site3"])
    with pytest.raises(MotetError, match=sentence):
        motet.run(data=data, threshold="f1", **(ASKED | more))


def test_rows_to_choose_on_are_kept_without_being_asked_for(run: motet.Result) -> None:
    found = motet.run(
        data=run.folder.parent / "all.csv", threshold="f1", **(ASKED | {"rounds": 1, "data.val_share": 0.0})
    )
    assert Record(found.folder).experiment.data.val_share == 0.2 and found.generic_model().threshold is not None


def test_a_threshold_that_no_export_writes(run: motet.Result, tmp_path: Path) -> None:
    run.export(tmp_path / "models", ["Bern"])
    path = tmp_path / "models" / "client-0-Bern" / "model.json"
    for change in ({"value": 1.5}, {"of_class": "no"}, {"rule": 3}):
        words = json.loads(path.read_text())
        words["threshold"] |= change
        wrong = tmp_path / "wrong.json"
        wrong.write_text(json.dumps(words))
        (tmp_path / "models" / "client-0-Bern").joinpath("model.json").write_text(wrong.read_text())
        with pytest.raises(MotetError, match="damaged"):
            motet.load_model(tmp_path / "models", "Bern")
        words["threshold"] = None
        path.write_text(json.dumps(words))
        assert motet.load_model(tmp_path / "models", "Bern").threshold is None
        words["threshold"] = {"value": 0.5, "rule": "f1", "of_class": "yes", "own": True, "rows": 3, "reached": True}
        path.write_text(json.dumps(words))
