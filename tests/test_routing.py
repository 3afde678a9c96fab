"""Rows of several clients at once: each goes to the model of its client, and models predict as scikit-learn's do."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import motet
from motet.cli import main
from motet.errors import MotetError
from motet.export.run import folder_name
from motet.training.randomness import generator

pa = pytest.importorskip("pyarrow")
pandas = pytest.importorskip("pandas")

SITES = ("Genève", "Zürich", "Bern 3")
HEADER = ["patient", "age", "ward", "hospital", "sick"]


def patients(rows: int, sites: tuple[str, ...] = SITES, seed: int = 0) -> list[dict[str, Any]]:
    """Patients whose hospitals see the same age in opposite ways, so that their own models differ."""
    rng, made = np.random.default_rng(seed), []
    for i in range(rows):
        site, age = sites[i % len(sites)], float(rng.normal(50, 12))
        sick = (age > 50) != (site == sites[-1])
        made.append(
            {
                "patient": f"P{i:03d}",
                "age": None if i % 17 == 3 else round(age, 1),
                "ward": str(rng.choice(["A", "B"])),
                "hospital": site,
                "sick": "yes" if sick else "no",
            }
        )
    return made


def write(path: Path, rows: list[dict[str, Any]], columns: list[str] = HEADER) -> Path:
    with path.open("w", newline="") as file:
        lines = csv.DictWriter(file, columns, extrasaction="ignore")
        lines.writeheader()
        lines.writerows(rows)
    return path


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> motet.Result:
    folder = tmp_path_factory.mktemp("hospitals")
    data = write(folder / "all.csv", patients(240))
    return motet.run(
        data=data, label="sick", client="hospital", leave_out=["patient"], method="fedrod", rounds=4, batch=20, lr=0.1,
        out=folder / "run", **{"engine.name": "inline"},
    )  # fmt: skip


@pytest.fixture(scope="module")
def models(result: motet.Result) -> Path:
    out = result.folder.parent / "models"
    result.export(out)
    return out


NEW = [*patients(9, (*SITES,), seed=1), {"patient": "X", "age": 40.0, "ward": "C", "hospital": "Sion", "sick": "no"},
       {"patient": "Y", "age": 60.0, "ward": "A", "hospital": None, "sick": "no"}]  # fmt: skip


def by_hand(models: Path) -> np.ndarray[Any, Any]:
    """The probabilities of each row by its own client's model, one row at a time."""
    found = []
    for row in NEW:
        known = row["hospital"] in SITES
        logits = motet.load_model(models, row["hospital"] if known else None)(row)
        found.append(torch.softmax(logits.double(), 1)[0].numpy())
    return np.array(found)


def test_each_row_goes_to_its_clients_model(models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = write(tmp_path / "new.csv", NEW)
    words = ["predict", str(models), str(data), "--client", "hospital", "--id", "patient", "--out"]
    assert main([*words, str(tmp_path / "p.csv")]) == 0
    with (tmp_path / "p.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0])[:6] == ["hospital", "patient", "model", "prediction", "probability", "p(no)"]
    right = by_hand(models)
    assert [float(row["p(yes)"]) for row in rows] == pytest.approx(right[:, 1].tolist(), abs=1e-5)
    assert [row["prediction"] for row in rows] == [("no", "yes")[i] for i in right.argmax(1)]
    assert [row["model"] for row in rows] == [*[SITES[i % 3] for i in range(9)], "generic", "generic"]
    assert [row["patient"] for row in rows] == [row["patient"] for row in NEW]
    said = capsys.readouterr().err
    assert "11 predictions: 9 by the models of their clients (Genève 3, Zürich 3, Bern 3 3)" in said
    assert "2 by the generic model (names that no client has: 'Sion')" in said


def test_a_name_stays_a_name(models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One client's model for all rows, as before; without --client the generic one, and a word about the column."""
    data = write(tmp_path / "new.csv", NEW)
    assert main(["predict", str(models), str(data), "--client", "Zürich"]) == 0
    first = csv.DictReader(capsys.readouterr().out.splitlines())
    own = motet.load_model(models, "Zürich").predict(pandas.DataFrame(NEW))
    assert [row["prediction"] for row in first] == own.tolist()
    assert main(["predict", str(models), str(data)]) == 0
    assert "--client hospital would send each row to the model of its client" in capsys.readouterr().err


def test_a_file_that_is_not_utf_8(models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = write(tmp_path / "new.csv", NEW)
    data.write_bytes(data.read_text().encode("latin-1"))
    words = ["predict", str(models), str(data), "--client", "hospital"]
    assert main(words) == 2
    assert "latin-1" in capsys.readouterr().err
    assert main([*words, "--encoding", "latin-1"]) == 0
    models_used = [row["model"] for row in csv.DictReader(capsys.readouterr().out.splitlines())]
    assert models_used == [*[SITES[i % 3] for i in range(9)], "generic", "generic"]
    assert [row["model"] for row in motet.predict(models, data, client="hospital", encoding="latin-1")] == models_used


WRONG = {
    "neither column nor client": (["--client", "town"], "accepted: such as 'Bern 3'"),
    "no such id": (["--id", "pateint"], "did you mean 'patient'?"),
    "an id that predictions have": (["--id", "prediction"], "has the name of a column of predictions"),
    "a column that is a client": (["--client", "Zürich"], "both a column of the data and a client"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_cannot_be_routed_is_one_sentence(
    wrong: str, models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words, sentence = WRONG[wrong]
    more = {"an id that predictions have": "prediction", "a column that is a client": "Zürich"}.get(wrong)
    rows = [{**row, more: "1"} if more else row for row in NEW]
    data = write(tmp_path / "new.csv", rows, [*HEADER, more] if more else HEADER)
    assert main(["predict", str(models), str(data), *words, "--out", str(tmp_path / "p.csv")]) == 2
    said = capsys.readouterr().err
    assert sentence in said and said.count("\n") == 1 and not (tmp_path / "p.csv").exists()


def test_a_stranger_is_refused_where_there_is_no_generic_model(
    result: motet.Result, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result.export(tmp_path / "own", list(SITES))
    data = write(tmp_path / "new.csv", NEW)
    assert main(["predict", str(tmp_path / "own"), str(data), "--client", "hospital"]) == 2
    said = capsys.readouterr()
    assert "row 10 names client 'Sion', for which" in said.err and "holds no model, nor a generic one" in said.err
    assert said.err.count("\n") == 1 and not said.out
    data = write(tmp_path / "known.csv", NEW[:9])
    assert main(["predict", str(tmp_path / "own"), str(data), "--client", "hospital"]) == 0


# ---------------------------------------------------------------- as scikit-learn's

FORMS = {
    "frame": pandas.DataFrame,
    "arrow": pa.Table.from_pylist,
    "rows": list,
    "columns": lambda rows: {name: [row[name] for row in rows] for name in rows[0]},
}


@pytest.mark.parametrize("form", FORMS)
def test_loaded_models_take_tables_in_memory(form: str, result: motet.Result, models: Path) -> None:
    x, right = FORMS[form](NEW), by_hand(models)
    one = motet.load_model(models, "Genève")
    logits = torch.softmax(one(NEW).double(), 1).numpy()
    assert one.classes_.tolist() == ["no", "yes"]
    for model in (one, result.personal_model("Genève")):
        assert np.abs(model.predict_proba(x) - logits).max() < 1e-6
        assert model.predict(x).tolist() == [("no", "yes")[i] for i in logits.argmax(1)]
    for every in (motet.load_models(models), result.models(), motet.load_models(models, client="hospital")):
        assert np.abs(every.predict_proba(x) - right).max() < 1e-6
        assert every.predict(x).tolist() == [("no", "yes")[i] for i in right.argmax(1)]
        assert every.classes_.tolist() == ["no", "yes"]
    rows = motet.predict(models, x, client="hospital", id="patient")
    assert [row["patient"] for row in rows] == [row["patient"] for row in NEW]
    assert [row["p(no)"] for row in rows] == pytest.approx(right[:, 0].tolist(), abs=1e-6)
    assert motet.predict(motet.load_models(models), x, id=["patient"]) == rows


def test_names_may_come_beside_the_rows(models: Path) -> None:
    every, names = motet.load_models(models), [row["hospital"] for row in NEW]
    features = [{"age": row["age"], "ward": row["ward"]} for row in NEW]
    assert np.abs(every.predict_proba(features, client=names) - by_hand(models)).max() < 1e-6
    with pytest.raises(MotetError, match="'hospital', which is no column of the rows; accepted: one of 'age', 'ward'"):
        every.predict(features)
    with pytest.raises(MotetError, match="2 names for 11 rows"):
        every.predict(features, client=["Bern 3", "Zürich"])
    with pytest.raises(MotetError, match="holds no model of 'Sion'"):
        every.model("Sion")


def test_classes_that_are_whole_numbers_compare_with_labels(tmp_path: Path) -> None:
    rows = [{**row, "sick": int(row["sick"] == "yes")} for row in patients(120)]
    frame = pandas.DataFrame(rows).drop(columns="patient")
    result = motet.run(data=frame, label="sick", client="hospital", rounds=2, **{"engine.name": "inline"})
    result.export(tmp_path / "models", generic=True)
    model = motet.load_model(tmp_path / "models")
    found = model.predict(frame)
    assert model.classes_.dtype == np.int64 and model.classes_.tolist() == [0, 1]
    assert (found == frame["sick"]).mean() == (model(frame).argmax(1).numpy() == frame["sick"].to_numpy()).mean()


def test_models_of_several_runs_are_not_mixed(models: Path, tmp_path: Path) -> None:
    data = write(tmp_path / "all.csv", [{**row, "ward": row["ward"] + "x"} for row in patients(120)])
    other = motet.run(
        data=data, label="sick", client="hospital", leave_out=["patient"], rounds=1, **{"engine.name": "inline"}
    )
    other.export(tmp_path / "mixed")
    for file in ("model.json", "model.safetensors"):
        (tmp_path / "mixed" / "generic" / file).write_bytes((models / "generic" / file).read_bytes())
    with pytest.raises(MotetError, match="of another run than the others"):
        motet.load_models(tmp_path / "mixed").predict(NEW)


def test_arrays_of_an_npz_name_clients_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    x, who = rng.normal(size=(60, 4)), np.arange(60) % 3
    np.savez(tmp_path / "rows.npz", x=x, y=(x[:, 0] > 0).astype(int), client=who)
    result = motet.run(data=tmp_path / "rows.npz", method="fedper", partition="natural", rounds=1)
    result.export(tmp_path / "models")
    words = ["predict", str(tmp_path / "models"), str(tmp_path / "rows.npz"), "--client", "client"]
    assert main(words) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [row["model"] for row in rows] == [str(i) for i in who]
    own = torch.softmax(result.personal_model(1)(x[1:2]), 1)
    assert float(rows[1]["p(1)"]) == pytest.approx(float(own[0, 1]), abs=1e-5)


# ---------------------------------------------------------------- names of folders


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("Genève", "client-3-Genève"),
        ("Gene\u0300ve", "client-3-Genève"),
        ("北京 第一", "client-3-北京-第一"),
        ("../../etc", "client-3-etc"),
        ("a/b\\c:d", "client-3-a-b-c-d"),
        ("\u202egnp.exe", "client-3-gnp-exe"),
        ("...", "client-3"),
        ("3", "client-3"),
    ],
)
def test_folders_keep_letters_and_nothing_else(name: str, folder: str) -> None:
    assert folder_name(3, name) == folder


def test_accents_lead_to_their_models(models: Path) -> None:
    assert sorted(path.name for path in models.iterdir() if path.is_dir()) == [
        "client-0-Bern-3", "client-1-Genève", "client-2-Zürich", "generic",
    ]  # fmt: skip
    assert motet.load_model(models, "Zürich").client == "Zürich"


# ---------------------------------------------------------------- a new client keeps the better model


def newcomers(folder: Path, flip: bool = False) -> Path:
    """Eighty patients of a new hospital; the labels of those that are held out may be turned around."""
    rows = patients(80, ("Sion",), seed=5)
    held = torch.randperm(80, generator=generator(0, "adapt-split")).tolist()[:20]
    for i in held if flip else []:
        rows[i]["sick"] = "no" if rows[i]["sick"] == "yes" else "yes"
    return write(folder / "new.csv", rows)


@pytest.mark.parametrize("lr", [0.1, 300.0])
def test_the_better_of_before_and_after_is_kept(
    lr: float, result: motet.Result, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A learning rate that ruins the model: the client keeps what it was served before, and is told so."""
    run = motet.run(
        data=result.folder.parent / "all.csv", label="sick", client="hospital", leave_out=["patient"], method="fedavg",
        rounds=4, batch=20, lr=0.1, out=tmp_path / "run", **{"engine.name": "inline", "adapt.lr": lr},
    )  # fmt: skip
    words = ["adapt", str(tmp_path / "run"), "--data", str(newcomers(tmp_path)), "--json", "--out"]
    assert main([*words, str(tmp_path / "model")]) == 0
    out = capsys.readouterr().out
    told, frame = json.loads(out.splitlines()[-1]), pandas.DataFrame(patients(80, ("Sion",), seed=5))
    kept = "before" if told["validation"]["before"] > told["validation"]["after"] else "after"
    assert told["kept"] == kept and f"Kept: the model {kept} adapting, chosen on validation rows" in out
    assert kept == ("before" if lr > 1 else "after")
    served = torch.softmax(run.generic_model()(frame), 1).numpy()
    same = np.abs(motet.load_model(tmp_path / "model").predict_proba(frame) - served).max() < 1e-6
    assert same == (kept == "before")


def test_held_out_rows_have_no_say_in_the_choice(result: motet.Result, tmp_path: Path) -> None:
    found = [motet.adapt(result, newcomers(tmp_path, flip)) for flip in (False, True)]
    assert found[0].kept == found[1].kept and found[0].validation == found[1].validation
    assert found[0].figures != found[1].figures
    assert torch.equal(found[0].model(NEW), found[1].model(NEW))
