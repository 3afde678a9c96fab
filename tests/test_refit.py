"""The models of a comparison: trained once more on all rows, with the figures and thresholds of the judged ones."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_routing import write

import motet
from motet.cli import main
from motet.config.experiment import read, resolve
from motet.config.experiment import write as write_experiment
from motet.data import build
from motet.errors import MotetError
from motet.export import refit
from motet.export.refit import experiment_of, judged_run
from motet.runs.record import Record
from motet.studies.anywhere import usable_anywhere

pandas = pytest.importorskip("pandas")

SITES = ("Bern", "Chur", "Genève")


def patients(rows: int = 180) -> list[dict[str, Any]]:
    rng, made = np.random.default_rng(0), []
    for i in range(rows):
        site, x = SITES[i % 3], rng.normal()
        sick = (x + 0.5 * rng.normal() > 0.4) != (site == "Chur")
        made.append({"x": f"{x:.3f}", "z": f"{rng.normal():.3f}", "site": site, "sick": "yes" if sick else "no"})
    return made


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison of one method, which was asked for with a path that is relative to its folder."""
    folder = tmp_path_factory.mktemp("study")
    write(folder / "all.csv", patients(), ["x", "z", "site", "sick"])
    here = os.getcwd()
    os.chdir(folder)
    try:
        motet.compare(
            "all.csv", methods=["fedavg+ft"], trials=1, seeds=1, jobs=1, out=folder / "study", label="sick",
            client="site", rounds=3, threshold="f1", batch=20, lr=0.1,
        )  # fmt: skip
    finally:
        os.chdir(here)
    return folder / "study"


def trained_rows(run: Path) -> int:
    told = json.loads((run / "clients.json").read_text())
    return sum(client["train"] for client in told["clients"])


def test_a_comparison_is_exported_after_a_refit(compared: Path, tmp_path: Path, capsys: Any) -> None:
    """On all rows, from another folder than that of the data; the figures are of the judged run, and said so."""
    assert main(["export", str(compared), "--out", str(tmp_path / "models")]) == 0
    assert "trained once more on all rows" in capsys.readouterr().out
    assert trained_rows(compared / "refit") == 180 > trained_rows(judged_run(compared).folder)
    judged = judged_run(compared)
    rows = {row["client"]: row for row in judged.clients if row["round"] == judged.summary.reported.round}
    thresholds = {
        c["client"]: c["threshold"] for c in json.loads((judged.folder / "thresholds.json").read_text())["clients"]
    }
    again = motet.load(compared / "refit")
    assert isinstance(again, motet.Result)
    for i, site in enumerate(SITES):
        model = motet.load_model(tmp_path / "models", site)
        assert model.known.refitted and model.threshold == thresholds[i]
        assert model.figures["personal.split.accuracy"] == rows[i]["personal.split.accuracy"]
        assert torch.equal(model(patients(9)), again.personal_model(site)(patients(9)))
    assert motet.load_model(tmp_path / "models").figures["generic.split.accuracy.mean"]


def test_a_finished_refit_is_used_again_and_a_stopped_one_goes_on(compared: Path, tmp_path: Path) -> None:
    motet.export(compared, tmp_path / "first")
    weights = (compared / "refit" / "weights.safetensors").read_bytes()
    written = (compared / "refit" / "summary.json").stat().st_mtime_ns
    motet.load(compared).export(tmp_path / "second", ["Bern"])
    assert (compared / "refit" / "summary.json").stat().st_mtime_ns == written
    for file in ("summary.json", "weights.safetensors"):
        (compared / "refit" / file).unlink()
    motet.export(motet.load(compared), tmp_path / "third", generic=True)
    assert (compared / "refit" / "weights.safetensors").read_bytes() == weights
    x = patients(6)
    assert torch.equal(motet.load_model(tmp_path / "first")(x), motet.load_model(tmp_path / "third")(x))


def test_without_a_refit_the_judged_models_are_exported(
    compared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["export", str(compared), "--no-refit", "--out", str(tmp_path / "models"), "--client", "Chur"]) == 0
    monkeypatch.chdir(compared.parent)  # where the run's own file finds the data
    model, run = motet.load_model(tmp_path / "models", "Chur"), motet.load(judged_run(compared).folder)
    assert isinstance(run, motet.Result)
    assert not model.known.refitted and torch.equal(model(patients(6)), run.personal_model("Chur")(patients(6)))


def test_a_refit_whose_training_broke_is_not_used(
    compared: Path, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no test rows that would tell; its models are looked at on the rows that they learned from."""
    shutil.copytree(compared.parent, tmp_path / "there")
    study = tmp_path / "there" / "study"
    shutil.rmtree(study / "refit", ignore_errors=True)
    sound = refit.experiment_of
    monkeypatch.setattr(refit, "experiment_of", lambda *asked: sound(*asked).with_({"local.lr": 40.0}))
    words = ["export", str(study), "--client", "Chur", "--out"]
    assert main([*words, str(tmp_path / "models")]) == 0
    assert "its training broke. The judged models are written instead" in " ".join(capsys.readouterr().err.split())
    assert main([*words, str(tmp_path / "judged"), "--no-refit"]) == 0
    model, judged = motet.load_model(tmp_path / "models"), motet.load_model(tmp_path / "judged")
    assert not model.known.refitted and torch.equal(model(patients(6)), judged(patients(6)))


def test_a_refit_may_have_more_columns_than_the_judged_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Holes that only test rows have, here the latest, are a column more once these rows are trained with."""
    monkeypatch.chdir(tmp_path)
    rows = [row | {"day": i} for i, row in enumerate(patients())]
    write(tmp_path / "holes.csv", rows[:-15] + [row | {"x": ""} for row in rows[-15:]], [*rows[0]])
    motet.compare(
        "holes.csv", methods=["fedavg"], trials=1, seeds=1, jobs=1, out="study", label="sick", client="site",
        time_column="day", rounds=3, batch=20, lr=0.1,
    )  # fmt: skip
    motet.export("study", "models", generic=True)
    model, judged = motet.load_model("models"), motet.load(judged_run(Path("study")).folder)
    assert isinstance(judged, motet.Result)
    wide, narrow = (sum(p.numel() for p in each.model.parameters()) for each in (model, judged.generic_model()))
    assert model.known.refitted and wide > narrow


def test_another_experiment_in_the_place_of_the_refit_is_refused(compared: Path, tmp_path: Path) -> None:
    motet.export(compared, tmp_path / "models", generic=True)
    file = compared / "recommended.toml"
    before = file.read_text()
    write_experiment(resolve(read(file)).with_({"local.lr": 0.3}), file)
    try:
        with pytest.raises(MotetError, match=r"refit holds another experiment \(local.lr"):
            motet.export(compared, tmp_path / "others")
    finally:
        file.write_text(before)


@pytest.mark.parametrize(("method", "share"), [("fedavg+ft", 0.0), ("fedfomo", 0.25)])
def test_validation_rows_stay_where_a_method_chooses_by_them(
    method: str, share: float, compared: Path, tmp_path: Path
) -> None:
    asked = resolve(read(compared / "recommended.toml")).with_({"method": method, "data.val_share": 0.25})
    write_experiment(asked, tmp_path / "recommended.toml")
    found = experiment_of(tmp_path, judged_run(compared))
    assert found.data.val_share == share and found.data.pool == "no_test" and not found.scoring.looks_at_test
    assert found.rounds.count == judged_run(compared).summary.reported.round


def test_a_run_is_not_refitted(compared: Path, tmp_path: Path, capsys: Any) -> None:
    run = judged_run(compared).folder
    assert main(["export", str(run), "--refit", "--out", str(tmp_path / "models")]) == 2
    assert "--refit is for a comparison" in capsys.readouterr().err


# ---------------------------------------------------------------- no test rows


def test_clients_keep_all_rows_where_no_test_is_asked(compared: Path) -> None:
    experiment = Record(compared / "refit").experiment if (compared / "refit").exists() else None
    asked = resolve(read(compared / "recommended.toml")).with_({"data": {"pool": "no_test", "val_share": 0.0}})
    federation = build(asked.data, 0)
    assert [len(client.train) for client in federation.clients] == [60, 60, 60] and not len(federation.test)
    assert experiment is None or experiment.data.pool == "no_test"
    simulated = asked.data.model_copy(update={"client": None, "partition": "iid", "clients": 4, "name": "digits"})
    simulated = simulated.model_copy(update={"label": None})
    usual = build(simulated.model_copy(update={"pool": "train", "test_share": 0.2}), 0)
    for one, other in zip(build(simulated, 0).clients, usual.clients, strict=True):
        assert len(one.train) == len(other.train) + len(other.test) and not len(one.test)


def test_no_test_rows_and_a_test_contradict(tmp_path: Path) -> None:
    with pytest.raises(MotetError, match=r"data\.pool is 'no_test' but scoring\.test is 'common'"):
        motet.run(data="digits", rounds=1, set={"data.pool": "no_test"})


# ---------------------------------------------------------------- from any folder


def test_paths_of_an_experiment_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "all.csv", patients(), ["x", "z", "site", "sick"])
    for file in ("mine.py", "schema.toml"):
        (tmp_path / file).write_text("")
    asked = resolve(
        {
            "method": "mine.py:Mine(mu=0.1)+ft",
            "data": {"name": "all.csv", "table_schema": "schema.toml"},
            "net": {"name": "mine.py:build"},
            "scoring": {"metrics": ["mine.py:cost", "ece"]},
        }
    )
    found = usable_anywhere(asked)
    assert found.method == f"{tmp_path}/mine.py:Mine(mu=0.1)+ft" and found.net.name == f"{tmp_path}/mine.py:build"
    assert found.data.name == str(tmp_path / "all.csv") and found.data.table_schema == str(tmp_path / "schema.toml")
    assert found.scoring.metrics == (f"{tmp_path}/mine.py:cost", "ece")
    (tmp_path / "digits").mkdir()
    assert usable_anywhere(resolve({})) == resolve({}), "names of data sets are no folders"
