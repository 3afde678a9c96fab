"""Tables: a model takes raw rows with their texts and holes, wherever it is; new files need no label."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import motet
from motet.cli import main

pytest.importorskip("pyarrow")

COLUMNS = ["age", "sex", "smoker", "ward", "hospital", "outcome"]
ROWS = [
    {"age": 61.5, "sex": "male", "smoker": True, "ward": "B"},
    {"age": None, "sex": "female", "smoker": None, "ward": "never seen"},
    {"age": 20.0, "sex": None, "smoker": False, "ward": "rare 3"},
]


def table(path: Path, rows: int, hospitals: list[str], columns: list[str] = COLUMNS, rare: bool = True) -> Path:
    """Patients; some wards have one patient each, so that not all of them are among the training rows."""
    rng = np.random.default_rng(len(hospitals))
    with path.open("w", newline="") as file:
        lines = csv.DictWriter(file, columns, extrasaction="ignore")
        lines.writeheader()
        for i in range(rows):
            age, ward = rng.normal(50, 10), f"rare {i // 20}" if rare and not i % 20 else rng.choice(["A", "B"])
            patient = {"age": "" if i % 9 == 4 else f"{age:.1f}", "sex": rng.choice(["male", "female"])}
            patient |= {
                "smoker": rng.choice(["true", "false"]),
                "ward": ward,
                "hospital": hospitals[i % len(hospitals)],
            }
            lines.writerow({**patient, "outcome": "sick" if age + 8 * (ward == "B") > 53 else "well"})
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> motet.Result:
    """Three hospitals, with their folder and their file."""
    folder = tmp_path_factory.mktemp("hospitals")
    table(folder / "all.csv", 240, ["Bern", "Chur", "Genf"])
    return motet.run(
        **{"data": folder / "all.csv", "label": "outcome", "client": "hospital", "method": "fedrod", "rounds": 3},
        **{"batch": 20, "lr": 0.05, "out": folder / "run", "engine.name": "inline"},
    )


@pytest.fixture(scope="module")
def exported(run: motet.Result) -> Path:
    """The model of one hospital, for every runtime."""
    out = run.folder.parent / "models"
    run.export(out, ["Bern"], generic=True, formats=["onnx", "torch.export"])
    return out


def test_raw_rows_give_the_logits_of_the_run(run: motet.Result, exported: Path) -> None:
    model, right = motet.load_model(exported, "Bern"), run.personal_model("Bern")
    listed = json.loads((exported / "client-0-Bern" / "model.json").read_text())["prepare"]["schema"]["columns"]
    assert len(dict(listed)["ward"]["categories"]) < 14, "each ward is in the training rows: the test tests nothing"
    assert torch.equal(model(ROWS), right(ROWS))
    assert [torch.equal(model(row), right(row)) for row in ROWS] == [True] * 3
    assert not torch.equal(model(ROWS[0]), motet.load_model(exported)(ROWS[0]))


def test_onnx_takes_rows_as_the_schema_stores_them(run: motet.Result, exported: Path) -> None:
    """Numbers, truths, places of categories: -1 for one that is not listed, NaN for what is missing."""
    onnxruntime = pytest.importorskip("onnxruntime")
    told = json.loads((exported / "client-0-Bern" / "model.json").read_text())
    columns: list[tuple[str, dict[str, Any]]] = told["prepare"]["schema"]["columns"]

    def stored(name: str, column: dict[str, Any], value: Any) -> float:
        if value is None:
            return float("nan")
        if column["kind"] != "category":
            return float(value)
        return float(column["categories"].index(value)) if value in column["categories"] else -1.0

    x = np.array([[stored(name, column, row[name]) for name, column in columns] for row in ROWS], np.float32)
    session = onnxruntime.InferenceSession(exported / "client-0-Bern" / "model.onnx")
    right = run.personal_model("Bern")(ROWS).numpy()
    for rows in (1, 3):
        assert np.abs(session.run(["logits"], {"x": x[:rows]})[0] - right[:rows]).max() < 1e-4


def test_a_table_without_labels_is_predicted_by_name(run: motet.Result, exported: Path, tmp_path: Path) -> None:
    """Columns in any order and others beside them; rows as Python has them give the same."""
    columns = ["ward", "smoker", "hospital", "sex", "age"]
    path = table(tmp_path / "new.csv", 30, ["Sion"], columns)
    words = ["predict", str(exported), str(path), "--client", "Bern", "--out", str(tmp_path / "predictions.csv")]
    assert main(words) == 0
    with path.open() as new, (tmp_path / "predictions.csv").open() as file:
        rows, lines = list(csv.DictReader(new)), list(csv.DictReader(file))
    right = torch.softmax(run.personal_model("Bern")(rows), 1)
    assert [line["prediction"] for line in lines] == [run.class_names[i] for i in right.argmax(1)]
    assert [float(line["p(sick)"]) for line in lines] == pytest.approx(right[:, 0].tolist(), abs=1e-5)


def test_labels_in_a_table_are_compared(exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = table(tmp_path / "new.csv", 30, ["Sion"])
    assert main(["predict", str(exported), str(path), "--out", str(tmp_path / "p.csv")]) == 0
    with path.open() as new, (tmp_path / "p.csv").open() as file:
        pairs = zip(csv.DictReader(new), csv.DictReader(file), strict=True)
        agree = [row["outcome"] == line["prediction"] for row, line in pairs]
    assert f"{100 * sum(agree) / 30:.1f} % of them" in capsys.readouterr().err


def test_a_new_hospital_gets_its_model(run: motet.Result, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = table(tmp_path / "new.csv", 80, ["Sion"])
    words = ["adapt", str(run.folder), "--data", str(path), "--name", "Sion", "--out", str(tmp_path / "new"), "--json"]
    assert main(words) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (told["train"], told["test"]) == (60, 20)
    assert {"before.split.accuracy", "after.split.accuracy"} <= told["figures"].keys()
    model = motet.load_model(tmp_path / "new")
    assert model.client == "Sion" and model(ROWS).shape == (3, 2)


WRONG_TABLES = {
    "lacks.csv": ("age,sex,smoker\n1,male,true\n", "column 'ward' of the schema is missing"),
    "words.csv": (
        "age,sex,smoker,ward\nold,male,true,A\n",
        "column 'age' holds 'old', but the schema says that it holds numbers",
    ),
    "empty.csv": ("", "is empty"),
    "header.csv": ("age,sex,smoker,ward\n", "holds no samples"),
    "x.npz": ("no zip", "cannot be read as .npz"),
}


@pytest.mark.parametrize("name", WRONG_TABLES)
def test_a_table_that_does_not_fit(
    name: str, exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, sentence = WRONG_TABLES[name]
    (tmp_path / name).write_text(text)
    assert main(["predict", str(exported), str(tmp_path / name)]) == 2
    said = capsys.readouterr()
    assert sentence in said.err and said.err.count("\n") == 1 and not said.out


def test_labels_that_the_run_does_not_know(
    run: motet.Result, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = table(tmp_path / "new.csv", 30, ["Sion"])
    path.write_text(path.read_text().replace("well", "fine"))
    assert main(["adapt", str(run.folder), "--data", str(path)]) == 2
    assert (
        "column 'outcome' holds 'fine'; accepted: the classes that are listed, 'sick', 'well'"
        in capsys.readouterr().err
    )


def test_a_table_without_labels_teaches_nobody(
    run: motet.Result, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = table(tmp_path / "new.csv", 30, ["Sion"], columns=COLUMNS[:-1])
    assert main(["adapt", str(run.folder), "--data", str(path)]) == 2
    assert "column 'outcome', the label, is missing; accepted: a table with it" in capsys.readouterr().err


@pytest.mark.parametrize(
    "change",
    [
        lambda schema: schema.update(columns=[]),
        lambda schema: schema["columns"][0][1].update(deviation=0.0),
        lambda schema: schema["columns"][0][1].update(kind="time"),
        lambda schema: schema["columns"].append(["more", {"kind": "number"}]),
        lambda schema: schema.pop("label"),
    ],
    ids=["no columns", "deviation", "kind", "wider", "label"],
)
def test_a_schema_that_no_run_writes(change: Any, exported: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    words = json.loads((exported / "generic" / "model.json").read_text())
    change(words["prepare"]["schema"])
    (model / "model.json").write_text(json.dumps(words))
    (model / "model.safetensors").write_bytes((exported / "generic" / "model.safetensors").read_bytes())
    with pytest.raises(motet.MotetError, match="do not make a model"):
        motet.load_model(model)


# ---------------------------------------------------------------- texts


TEXT_NET = """
from torch import nn

class Mean(nn.Module):
    def forward(self, z):
        return z.mean(1)

def build(input, classes, split):
    return nn.Sequential(nn.Embedding(input.vocabulary, 8), Mean(), nn.Linear(8, classes))
"""


def letters(path: Path, writers: list[str], more: str = "") -> Path:
    """Texts of two subjects; each writer has words of his own, so that training rows lack some."""
    subjects = {"sport": "ball goal team", "food": "soup bread salt"}
    lines = [
        f"{words} {writer}{i}{more},{writer},{subject}"
        for writer in writers
        for i in range(15)
        for subject, words in subjects.items()
    ]
    path.write_text("\n".join(["letter,writer,subject", *lines]))
    return path


def test_texts_go_where_their_model_goes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also as tokens, whose vocabulary is in the description; a new client comes with its texts."""
    (tmp_path / "text_net.py").write_text(TEXT_NET)
    run = motet.run(
        **{"data": letters(tmp_path / "all.csv", ["Ada", "Bo"]), "label": "subject", "client": "writer", "rounds": 2},
        **{
            "data.kind": "tokens",
            "net": f"{tmp_path}/text_net.py:build",
            "out": tmp_path / "run",
            "lr": 0.1,
            "engine.name": "inline",
        },
    )
    (written,) = run.export(tmp_path / "ex", ["Ada"], formats=["onnx"])
    model, right = motet.load_model(written, trust_code=True), run.personal_model("Ada")
    texts = ["goal Ada3 bread", "unheard of"]
    assert torch.equal(model(texts), right(texts))
    told = json.loads((written / "model.json").read_text())["prepare"]
    tokens = [[2 + told["known"].index(w) for w in ("goal", "bread", "salt")], [1, 0, 0]]
    x = np.array([row + [0] * (told["length"] - 3) for row in tokens], np.int64)
    assert torch.equal(model(x), right(x)) and torch.allclose(model(x)[:1], model(["goal bread salt"]), atol=1e-6)
    new = letters(tmp_path / "new.csv", ["Cy"], more="x")
    assert main(["predict", str(written), str(new), "--trust-code"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 31
    assert main(["adapt", str(tmp_path / "run"), "--data", str(new), "--out", str(tmp_path / "cy"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["test"] == 8
