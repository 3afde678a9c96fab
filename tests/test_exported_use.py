"""What one does with exported models: predictions of samples, and a model for a new client."""

import csv
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from made_exports import DIGITS, apart, tiny
from sklearn.datasets import load_digits

import motet
from motet.cli import main
from motet.training.randomness import generator

# ---------------------------------------------------------------- predictions


def test_predictions_are_named(exported: Path, fedrod: motet.Result, tmp_path: Path, capsys: Any) -> None:
    np.savez(tmp_path / "new.npz", x=DIGITS, y=load_digits().target[:40])
    words = ["predict", str(exported), str(tmp_path / "new.npz"), "--client", "0", "--out", str(tmp_path / "p.csv")]
    assert main(words) == 0
    with (tmp_path / "p.csv").open() as file:
        rows = list(csv.DictReader(file))
    right = torch.softmax(fedrod.personal_model(0)(DIGITS), 1)
    assert [row["prediction"] for row in rows] == [str(i) for i in right.argmax(1).tolist()]
    assert [float(row["p(7)"]) for row in rows] == pytest.approx(right[:, 7].tolist(), abs=1e-5)
    assert [float(row["probability"]) for row in rows] == pytest.approx(right.max(1).values.tolist(), abs=1e-5)
    agree = (right.argmax(1).numpy() == load_digits().target[:40]).mean()
    assert f"{100 * agree:.1f} % of them" in capsys.readouterr().err


def test_class_names_with_commas_and_quotes_stay_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ['a,"b"\nc', "=1+1", "<b>"]
    x, y = np.random.default_rng(0).random((60, 5)), np.array(names)[np.arange(60) % 3]
    np.savez(tmp_path / "rows.npz", x=x, y=y, client=np.arange(60) // 20)
    result = motet.run(method="fedavg", data=str(tmp_path / "rows.npz"), partition="natural", rounds=1)
    result.export(tmp_path / "ex", generic=True)
    np.save(tmp_path / "x.npy", x[:3])
    assert main(["predict", str(tmp_path / "ex"), str(tmp_path / "x.npy")]) == 0
    rows = list(csv.reader(capsys.readouterr().out.splitlines(keepends=True)))
    assert len(rows) == 4 and {row[0] for row in rows[1:]} <= set(names)
    assert set(rows[0][2:]) == {f"p({name})" for name in names}


WRONG_SAMPLES: dict[str, tuple[Callable[[Path], object], str]] = {
    "rows.npz": (
        lambda path: np.savez(path, x=np.zeros((3, 7))),
        r"input x has shape \(n, 7\); accepted: \[n, 8, 8, 1",
    ),
    "nan.npz": (lambda path: np.savez(path, x=np.full((3, 8, 8), np.nan)), "NaN or infinite"),
    "text.npz": (lambda path: np.savez(path, x=np.array(["a"])), "no array of numbers"),
    "none.npz": (lambda path: np.savez(path, y=np.zeros(3)), "field 'x' is missing"),
    "empty.npz": (lambda path: np.savez(path, x=np.zeros((0, 8, 8))), "holds no samples"),
    "pickle.npy": (lambda path: np.save(path, np.array([{}]), allow_pickle=True), "cannot be read as .npy"),
    "half.npy": (lambda path: path.write_bytes(b"\x93NUMPY"), "cannot be read as .npy"),
    "words.txt": (lambda path: path.write_text("hello"), "of no form that is read; accepted: a file in .npz"),
    "missing.npz": (lambda path: None, "No such file"),
    "folder.npz": (lambda path: path.mkdir(), "holds no image"),
}


@pytest.mark.parametrize("name", WRONG_SAMPLES)
def test_samples_that_are_none(name: str, exported: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make, sentence = WRONG_SAMPLES[name]
    make(tmp_path / name)
    assert main(["predict", str(exported), str(tmp_path / name), "--out", str(tmp_path / "p.csv")]) == 2
    said = capsys.readouterr().err
    assert re.search(sentence, said) and said.count("\n") == 1
    assert not (tmp_path / "p.csv").exists()


@pytest.mark.parametrize("form", ["folder", "zip"])
def test_image_files_are_predicted_by_their_names(form: str, tmp_path: Path, capsys: Any) -> None:
    """Of another size and in grey, in folders of their classes: as the run's own data were."""
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    for i in range(40):
        place = tmp_path / "pets" / ("Bern", "Chur")[i // 20] / ("cat", "dog")[i % 2]
        place.mkdir(parents=True, exist_ok=True)
        image.fromarray(rng.integers(0, 99 + 99 * (i % 2), (16, 16, 3), dtype=np.uint8)).save(place / f"{i}.png")
    result = motet.run(method="fedavg", data=str(tmp_path / "pets"), partition="natural", rounds=1, epochs=1)
    result.export(tmp_path / "ex", generic=True)
    for name, (side, mode) in {"b.png": (20, "L"), "a.png": (16, "RGB")}.items():
        (tmp_path / "new" / "dog").mkdir(parents=True, exist_ok=True)
        image.new(mode, (side, side), "white").save(tmp_path / "new" / "dog" / name)
    if form == "zip":
        shutil.make_archive(str(tmp_path / "new"), "zip", tmp_path / "new")
    given = tmp_path / ("new.zip" if form == "zip" else "new")
    capsys.readouterr()
    assert main(["predict", str(tmp_path / "ex"), str(given)]) == 0
    said = capsys.readouterr()
    rows = list(csv.DictReader(said.out.splitlines()))
    assert [row["file"] for row in rows] == ["dog/a.png", "dog/b.png"]
    white = torch.softmax(result.generic_model()(np.full((1, 16, 16, 3), 255, np.uint8)), 1)[0, 1]
    assert [float(row["p(dog)"]) for row in rows] == pytest.approx([float(white)] * 2, abs=1e-5)
    assert "% of them" in said.err


# ---------------------------------------------------------------- a new client


def of_new_client(tmp_path: Path, labels: Callable[[Any], Any] = lambda y: y) -> Path:
    """Threes and eights."""
    digits = load_digits()
    mine = np.isin(digits.target, (3, 8))
    np.savez(tmp_path / "new.npz", x=digits.images[mine][:80], y=labels(digits.target[mine][:80]))
    return tmp_path / "new.npz"


@pytest.mark.parametrize("labels", [lambda y: y, lambda y: y.astype(str)], ids=["numbers", "names"])
def test_a_new_client_gets_its_model_and_its_figures(
    labels: Any, fedrod: motet.Result, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The figures are of samples that the model has not seen, and the written model is the one that was scored."""
    data, out = of_new_client(tmp_path, labels), tmp_path / "new"
    words = ["adapt", str(fedrod.folder), "--data", str(data), "--out", str(out), "--name", "Bern", "--json"]
    assert main(words) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (told["train"], told["test"]) == (60, 20)
    with np.load(data) as file:
        x, y = file["x"], file["y"].astype(int)
    order = torch.randperm(80, generator=generator(0, "adapt-split")).tolist()
    learned, held = order[20:], order[:20]
    right = fedrod.adapt(x[learned], y[learned])
    model = motet.load_model(out)
    assert model.client == "Bern" and apart(model(x), right(x)) <= 1e-6
    for name, other in {"after": right, "generic": fedrod.generic_model()}.items():
        accuracy = (other(x[held]).argmax(1).numpy() == y[held]).mean()
        assert told["figures"][f"{name}.split.accuracy"] == pytest.approx(accuracy)
    assert told["figures"] == dict(model.figures) and "before.split.accuracy" in model.figures
    assert told["figures"]["after.split.accuracy"] > told["figures"]["generic.split.accuracy"]


def test_a_new_client_that_tells_its_class_counts_alone(fedrod: motet.Result, tmp_path: Path) -> None:
    counts = [0, 0, 0, 5, 0, 0, 0, 0, 5, 0]
    words = ["adapt", str(fedrod.folder), "--counts", ",".join(map(str, counts)), "--out", str(tmp_path / "new")]
    assert main(words) == 0
    assert apart(motet.load_model(tmp_path / "new")(DIGITS), fedrod.adapt(counts=counts)(DIGITS)) <= 1e-6


@pytest.mark.parametrize("method", ["fedbasis", "fedavg"])
def test_before_is_what_the_client_is_served_before_it_learns(method: str, tmp_path: Path, capsys: Any) -> None:
    result, data = tiny(method), of_new_client(tmp_path)
    assert main(["adapt", str(result.folder), "--data", str(data), "--json"]) == 0
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])["figures"]
    assert figures["after.split.accuracy"] > figures["before.split.accuracy"]
    if method == "fedavg":
        assert figures["before.split.accuracy"] == figures["generic.split.accuracy"]


WRONG_NEWCOMERS: dict[str, tuple[list[str], str]] = {
    "nothing": ([], "accepted: --data FILE with samples and labels, or --counts"),
    "words for counts": (["--counts", "1,x"], "accepted: one whole number per class"),
    "too few counts": (["--counts", "1,2"], "accepted: 10 whole numbers"),
    "a share of all": (["--data", "new.npz", "--test-share", "1.0"], "accepted: 0 or more, below 1"),
    "a format for nothing": (["--data", "new.npz", "--format", "onnx"], "accepted: --out DIR beside it"),
    "no labels": (["--data", "x.npy"], "holds samples without labels"),
    "labels of others": (["--data", "wrong.npz"], "holds label 99; accepted: 0 to 9"),
    "names of others": (["--data", "named.npz"], "holds label 'Bern'; accepted: a class of the run"),
    "one sample": (["--data", "one.npz"], "accepted: more samples, or a test share of 0"),
}


@pytest.mark.parametrize("wrong", WRONG_NEWCOMERS)
def test_a_new_client_that_is_none(
    wrong: str, fedrod: motet.Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    of_new_client(tmp_path)
    np.save("x.npy", DIGITS)
    np.savez("wrong.npz", x=DIGITS, y=np.full(40, 99))
    np.savez("named.npz", x=DIGITS, y=np.full(40, "Bern"))
    np.savez("one.npz", x=DIGITS[:1], y=[3])
    words, sentence = WRONG_NEWCOMERS[wrong]
    assert main(["adapt", str(fedrod.folder), *words]) == 2
    said = capsys.readouterr().err
    assert sentence in said and said.count("\n") == 1


@pytest.mark.parametrize("name", ["é" * 1000, "x" * 5000, "\udcc3"])
def test_what_is_written_under_a_name_can_be_loaded_under_it(
    name: str, fedrod: motet.Result, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    counts = ",".join(["3"] * 10)
    words = ["adapt", str(fedrod.folder), "--counts", counts, "--out", str(tmp_path / "new"), "--name", name]
    if len(name) == 1000:
        assert main(words) == 0
        assert motet.load_model(tmp_path / "new").known.client == name
    else:
        assert main(words) == 2
        assert "accepted: " in capsys.readouterr().err and not (tmp_path / "new").exists()
