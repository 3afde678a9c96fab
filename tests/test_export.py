"""Exported models answer as the run's own do, where nothing of the run is; foreign folders are refused."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import motet
from motet.cli import main
from motet.contract import Entry, Forward
from motet.contract.part import Part
from motet.errors import MotetError
from motet.export import folder as folders
from motet.export.index import read_index
from motet.export.run import folder_name
from motet.message import decode, encode
from motet.methods import METHODS
from motet.nets import Net
from motet.rng import generator

TINY: dict[str, Any] = {
    **{"data": "digits", "clients": 4, "new_clients": 0.25, "subset": 0.2, "cohort": 1.0, "rounds": 2},
    **{"epochs": 1, "batch": 20, "lr": 0.05},
}
DIGITS = load_digits().images[:40].astype(np.uint8)
FEW = ["fedavg", "fedrod(head=linear)", "fedrod+dbe", "fedbasis", "superfed-mm", "fedavg+knn-per", "fedprox+lp"]
WRAPS = [name for name, entry in METHODS.items() if entry.wraps]


def tiny(method: str, **more: Any) -> motet.Result:
    return motet.run(method=method, **(TINY | more), **{"engine.name": "inline"})


def apart(mine: Tensor, right: Tensor) -> float:
    return float(torch.where(mine == right, 0.0, (mine - right).abs()).max())


def require_equal(result: motet.Result, out: Path, x: Any) -> None:
    """Every model of the run, loaded from where its run is not, gives the same logits."""
    written = result.export(out)
    assert len(written) >= len(result.client_names)
    for path in written:
        model = motet.load_model(path)
        mine = result.generic_model() if model.client is None else result.personal_model(model.client)
        assert apart(model(x), mine(x)) <= 1e-6
        assert model.class_names == result.class_names


@pytest.fixture(scope="module")
def fedrod() -> motet.Result:
    """A run with a personal head, whose data the tests may lose."""
    return tiny("fedrod")


@pytest.fixture
def exported(fedrod: motet.Result, tmp_path: Path) -> Path:
    """The generic model and that of client 0."""
    fedrod.export(tmp_path / "ex", [0], generic=True)
    return tmp_path / "ex"


# ---------------------------------------------------------------- equality


@pytest.mark.parametrize("method", FEW)
def test_a_loaded_model_gives_the_logits_of_the_run(method: str, tmp_path: Path) -> None:
    require_equal(tiny(method), tmp_path / "ex", DIGITS)


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_every_method_can_be_exported(name: str, tmp_path: Path) -> None:
    net = "batchnorm_net:build" if name == "fedbn" else "mlp"
    method = f"fedavg+{name}" if name in WRAPS else name
    result = tiny(method, net=net, clients=7, set={"data.val_share": 0.2})
    require_equal(result, tmp_path / "ex", DIGITS)
    result.export(tmp_path / "others", [0], formats=["torch.export", "onnx"])


@pytest.mark.parametrize(
    "method",
    [
        "fedavg+dbe+knn-per",
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("fedrod", "fedbasis", "superfed-lm", "pgfed+ft")),
    ],
)
def test_a_convolution_is_exported_for_every_runtime(method: str, tmp_path: Path) -> None:
    """Colour images in bytes, with names of classes, into all formats; each is checked, and tells how far it is."""
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (80, 16, 16, 3), dtype=np.uint8), np.array(["cat", "dog"])[np.arange(80) % 2]
    np.savez(tmp_path / "pets.npz", x=x, y=y, client=np.repeat(["Bern", "../Chur"], 40))
    result = motet.run(method=method, data=str(tmp_path / "pets.npz"), partition="natural", rounds=1, epochs=1)
    require_equal(result, tmp_path / "all", x)
    written = result.export(tmp_path / "ex", ["../Chur"], formats=["torch.export", "onnx"])
    told = json.loads((written[-1] / "model.json").read_text())
    assert told["class_names"] == ["cat", "dog"] and told["sample_type"] == "uint8"
    assert told["data"] == "pets.npz" and str(tmp_path) not in json.dumps(told)
    for name in ("model.onnx", "model.pt2", "model.safetensors"):
        assert told["files"][name]["largest_difference"] <= 1e-4
        assert "common test set" in told["files"][name]["checked_on"]
        assert str(Path(motet.__file__).parent).encode() not in (written[-1] / name).read_bytes()


ELSEWHERE = """
import sys
import numpy as np
for name in ("motet", "torch", "onnx"):
    sys.modules[name] = None
import onnxruntime
session = onnxruntime.InferenceSession("model.onnx")
(given,) = session.get_inputs()
assert (given.name, given.type, given.shape) == ("x", "tensor(uint8)", ["n", 8, 8, 1]), (given.type, given.shape)
for rows in (1, 7, 40):
    logits = session.run(["logits"], {"x": np.load("x.npy")[:rows]})[0]
    assert np.abs(logits - np.load("logits.npy")[:rows]).max() < 1e-4
print("the same")
"""


def test_onnx_runs_where_there_is_neither_motet_nor_torch(fedrod: motet.Result, tmp_path: Path) -> None:
    """Raw bytes go in: the normalization is inside."""
    (written,) = fedrod.export(tmp_path / "ex", [1], formats=["onnx"])
    np.save(written / "x.npy", DIGITS[..., None])
    np.save(written / "logits.npy", fedrod.personal_model(1)(DIGITS).numpy())
    done = subprocess.run([sys.executable, "-I", "-c", ELSEWHERE], cwd=written, capture_output=True, text=True)
    assert done.stdout == "the same\n", done.stderr


LOADED = """
import numpy as np, torch
from motet import load_model
before = torch.random.get_rng_state()
for client in (None, "0"):
    mine = load_model("ex", client)(np.load("x.npy")).numpy()
    assert np.abs(mine - np.load(f"{client}.npy")).max() <= 1e-6
assert torch.equal(before, torch.random.get_rng_state())
print("the same")
"""


def test_a_copy_is_loaded_in_a_process_that_has_nothing_of_the_run(exported: Path, fedrod: motet.Result) -> None:
    elsewhere = exported.parent / "elsewhere"
    shutil.copytree(exported, elsewhere / "ex")
    np.save(elsewhere / "x.npy", DIGITS)
    np.save(elsewhere / "None.npy", fedrod.generic_model()(DIGITS).numpy())
    np.save(elsewhere / "0.npy", fedrod.personal_model(0)(DIGITS).numpy())
    here = {**os.environ, "PYTHONPATH": str(Path(motet.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", LOADED], cwd=elsewhere, env=here, capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "the same\n", done.stderr


def test_a_run_copied_elsewhere_exports_what_its_folder_keeps(tmp_path: Path) -> None:
    """Without its data: the models that no sample makes, checked on samples that are made up, and said so."""
    x, y = np.random.default_rng(0).random((60, 5)), np.arange(60) % 3
    np.savez(tmp_path / "rows.npz", x=x, y=y, client=np.repeat([0, 1, 2], 20))
    result = motet.run(
        method="fedper",
        data=str(tmp_path / "rows.npz"),
        partition="natural",
        rounds=1,
        new_clients=0.34,
        out=tmp_path / "run",
    )
    right = {name: result.personal_model(name)(x) for name in result.client_names}
    (tmp_path / "rows.npz").unlink()
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    shutil.rmtree(tmp_path / "run")
    left = motet.load(tmp_path / "copy")
    written = left.export(tmp_path / "ex")
    assert len(written) == 2  # the new client's is made of its data
    for path in written:
        model = motet.load_model(path)
        assert model.client is not None and apart(model(x), right[model.client]) <= 1e-6
    told = json.loads((written[0] / "model.json").read_text())
    assert "made-up" in told["files"]["model.safetensors"]["checked_on"] and told["sample_type"] == "float32"
    with pytest.raises(MotetError, match="are not here"):
        left.export(tmp_path / "other", [next(i for i in range(3) if motet_new(tmp_path / "copy", i))])


def motet_new(run: Path, client: int) -> bool:
    return bool(json.loads((run / "serving.json").read_text())["clients"][client][4])


# ---------------------------------------------------------------- what is no net with constants


class Doubled(Part):
    """Changes predictions, and tells nobody by which constants."""

    acts = "loss"

    def personal_logits(self, net: Net, out: Forward, note: Any) -> Tensor:
        return 2 * out.logits


class Twice(Doubled):
    """The same, as a matrix that only fits a head without biases."""

    def constants(self, net: Net, note: Any) -> dict[str, Tensor]:
        return {"matrix": net.get_parameter("fc3.weight")}


def test_a_part_of_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without `constants` only its computation can be kept; with wrong ones the check finds the difference."""
    monkeypatch.setitem(METHODS, "doubled", Entry("doubled", "for a test", "none", part=Doubled))
    result = tiny("fedavg+doubled")
    with pytest.raises(MotetError, match=r"part Doubled .*accepted: --format torch.export or onnx"):
        result.export(tmp_path / "a")
    (written,) = result.export(tmp_path / "b", [0], formats=["torch.export"])
    program = torch.export.load(written / "model.pt2").module()
    assert apart(program(torch.from_numpy(DIGITS[..., None])), result.personal_model(0)(DIGITS)) <= 1e-6
    with pytest.raises(MotetError, match=r"only model.pt2 was written"):
        motet.load_model(written)
    monkeypatch.setitem(METHODS, "twice", Entry("twice", "for a test", "none", part=Twice))
    with pytest.raises(MotetError, match="differs from the run's own by"):
        tiny("fedavg+twice").export(tmp_path / "c", [0])


def test_a_net_of_the_users_own_is_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("motet.runs.trust._in_this_process", set())
    code = "from torch import nn\ndef build(input, classes, split):\n    return nn.Sequential({})\n"
    layers = "nn.Flatten(), nn.Linear(64, 9), nn.ReLU(), nn.Linear(9, classes)"
    net = tmp_path / "own_net.py"
    net.write_text(code.format(layers))
    result = tiny("fedavg", net=f"{net}:build")
    result.export(tmp_path / "ex")
    assert apart(motet.load_model(tmp_path / "ex")(DIGITS), result.generic_model()(DIGITS)) == 0
    net.write_text(code.format(layers) + "# changed\n")
    with pytest.raises(MotetError, match="which you did not run"):
        motet.load_model(tmp_path / "ex")
    motet.load_model(tmp_path / "ex", trust_code=True)


# ---------------------------------------------------------------- names and folders

NAMES = ["../../etc", "/abs", "a/b", "\x1b[31mred", "<b>bold</b>", "ünïcode", ".", "..", "nul\n", "x" * 300, "-rf", ""]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_of_a_client_makes_a_folder_beside_the_others(name: str, tmp_path: Path) -> None:
    made = folder_name(3, name)
    assert made.startswith("client-3") and len(made) < 60
    (tmp_path / made).mkdir()
    assert [path.name for path in tmp_path.iterdir()] == [made]


def test_clients_are_found_by_their_names_whatever_they_are(tmp_path: Path) -> None:
    names = ["../../etc", "\x1b[31mred", "1", "0"]
    x, y = np.random.default_rng(0).random((80, 5)), np.arange(80) % 2
    np.savez(tmp_path / "rows.npz", x=x, y=y, client=np.repeat(names, 20))
    result = motet.run(method="fedper", data=str(tmp_path / "rows.npz"), partition="natural", rounds=1)
    result.export(tmp_path / "ex")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ex", "rows.npz"]
    for number, name in enumerate(result.client_names):
        model = motet.load_model(tmp_path / "ex", name)
        assert model.client == name and apart(model(x), result.personal_model(number)(x)) <= 1e-6
    with pytest.raises(MotetError, match=r"no model of a client 'Bern'; accepted: such as"):
        motet.load_model(tmp_path / "ex", "Bern")
    with pytest.raises(MotetError, match="no generic one"):
        motet.load_model(tmp_path / "ex")


def test_an_export_never_mixes_with_what_is_there(fedrod: motet.Result, exported: Path) -> None:
    for taken in (exported, exported / "export.json"):
        with pytest.raises(MotetError, match="accepted: --out = a new folder"):
            fedrod.export(taken)
    with pytest.raises(MotetError, match="no client is named 'Bern'"):
        fedrod.export(exported.parent / "b", ["Bern"])
    with pytest.raises(MotetError, match=r"unknown format 'pickle': .*accepted: onnx, torch, torch.export"):
        fedrod.export(exported.parent / "b", formats=["pickle"])


# ---------------------------------------------------------------- foreign folders

Change = Callable[[dict[str, Any]], object]
WRONG_WORDS: dict[str, Change] = {
    "no format": lambda words: words.pop("format"),
    "a later format": lambda words: words.update(format=2),
    "another kind of model": lambda words: words.update(model="teapot"),
    "a generic model of a client": lambda words: words.update(model="generic"),
    "a client without a number": lambda words: words["client"].pop("number"),
    "names that are none": lambda words: words.update(class_names=[1] * 10),
    "a class too many": lambda words: words["class_names"].append("11"),
    "no classes": lambda words: words.update(class_names=[]),
    "a net that is a list": lambda words: words.update(net=[]),
    "a head that is none": lambda words: words["net"].update(head="fc9"),
    "an unknown net": lambda words: words["net"].update(name="resnet9000"),
    "another net": lambda words: words["net"].update(name="twonn"),
    "a shape below zero": lambda words: words["prepare"].update(shape=[8, -8, 1]),
    "a shape beyond all memory": lambda words: words["prepare"].update(shape=[2**40, 2**40, 1]),
    "another shape": lambda words: words["prepare"].update(shape=[4, 16, 1]),
    "another kind of sample": lambda words: words["prepare"].update(kind="tokens", vocabulary=7),
    "a type that is none": lambda words: words.update(sample_type="object"),
    "neighbours without samples": lambda words: words.update(neighbours={"k": 3, "scale": 1.0, "lam": 0.5}),
    "neighbours out of range": lambda words: words.update(neighbours={"k": 0, "scale": 1.0, "lam": 0.5}),
    "figures that are text": lambda words: words.update(figures={"a": "b"}),
    "a negative round": lambda words: words.update(round=-1),
    "no files": lambda words: words.pop("files"),
    "other weights": lambda words: words["files"]["model.safetensors"].update(sha256="0" * 64),
}


@pytest.mark.parametrize("wrong", WRONG_WORDS)
def test_a_description_that_no_export_writes_is_refused(wrong: str, exported: Path) -> None:
    path = exported / "client-0" / "model.json"
    words = json.loads(path.read_text())
    WRONG_WORDS[wrong](words)
    path.write_text(json.dumps(words))
    with pytest.raises(MotetError) as caught:
        motet.load_model(exported, 0)
    assert "\n" not in str(caught.value)


WRONG_TENSORS: dict[str, Callable[[dict[str, Any]], object]] = {
    "one is missing": lambda t: t.pop("net.fc1.linear.bias"),
    "one is unknown": lambda t: t.update({"extra": torch.zeros(3)}),
    "one of the net is unknown": lambda t: t.update({"net.extra": torch.zeros(3)}),
    "another shape": lambda t: t.update({"net.fc3.bias": torch.zeros(11)}),
    "a matrix of another shape": lambda t: t.update(matrix=torch.zeros(10, 3)),
    "a matrix of whole numbers": lambda t: t.update(matrix=torch.zeros(10, 64, dtype=torch.int64)),
    "a shift of another shape": lambda t: t.update(shift=torch.zeros(3)),
    "samples that nobody asked for": lambda t: t.update(z=torch.zeros(1, 64), y=torch.zeros(1, dtype=torch.int64)),
    "no constants": lambda t: t.pop("prepare.scale"),
    "constants of another shape": lambda t: t.update({"prepare.scale": torch.zeros(3)}),
}


@pytest.mark.parametrize("wrong", WRONG_TENSORS)
def test_weights_that_no_export_writes_are_refused(wrong: str, exported: Path) -> None:
    """Also if the checksum beside them is theirs."""
    weights, path = exported / "client-0" / "model.safetensors", exported / "client-0" / "model.json"
    tensors = decode(weights.read_bytes())
    WRONG_TENSORS[wrong](tensors)
    weights.write_bytes(encode(tensors))
    words = json.loads(path.read_text())
    words["files"]["model.safetensors"]["sha256"] = sha256(weights.read_bytes()).hexdigest()
    path.write_text(json.dumps(words))
    with pytest.raises(MotetError, match="export it anew"):
        motet.load_model(exported, 0)


def test_no_net_is_built_that_the_weights_do_not_fill(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few words ask for eight gigabytes."""
    path = exported / "client-0" / "model.json"
    words = json.loads(path.read_text())
    words["prepare"] |= {"shape": [4096, 4096, 1], "constants": False}
    path.write_text(json.dumps(words))
    built: list[str] = []

    def build_net(*recipe: Any, **options: Any) -> nn.Module:
        net = original(*recipe, **options)
        built.append(next(net.parameters()).device.type)
        return net

    original = folders.build_net
    monkeypatch.setattr(folders, "build_net", build_net)
    with pytest.raises(MotetError, match="export it anew"):
        motet.load_model(exported, 0)
    assert built == ["meta"]


@pytest.mark.parametrize("folder", ["../outside", "/etc", "client-0/../generic", "generic\n", "", 3, None])
def test_an_index_leads_nowhere_else(folder: object, exported: Path) -> None:
    path = exported / "export.json"
    words = json.loads(path.read_text())
    words["models"][0]["folder"] = folder
    path.write_text(json.dumps(words))
    with pytest.raises(MotetError, match=r"export.json is damaged"):
        motet.load_model(exported)


def test_links_and_halves_are_refused(exported: Path) -> None:
    model = exported / "client-0"
    shutil.move(model, exported.parent / "moved")
    model.symlink_to(exported.parent / "moved")
    with pytest.raises(MotetError, match="is a link"):
        motet.load_model(exported, 0)
    model.unlink()
    shutil.copytree(exported.parent / "moved", model)
    (model / "model.safetensors").write_bytes((model / "model.safetensors").read_bytes()[:-1])
    with pytest.raises(MotetError, match="its checksum is another"):
        motet.load_model(exported, 0)
    (model / "model.safetensors").unlink()
    (model / "model.safetensors").symlink_to("/etc/hostname")
    with pytest.raises(MotetError, match="a link, not a file of the folder"):
        motet.load_model(exported, 0)
    (model / "model.json").write_text("[" * 9999)
    with pytest.raises(MotetError, match="is damaged"):
        motet.load_model(exported, 0)
    (exported / "export.json").unlink()
    with pytest.raises(MotetError, match="holds no exported model"):
        motet.load_model(exported)


# ---------------------------------------------------------------- the command line


def test_the_command_line_exports_and_says_how_far_apart(
    fedrod: motet.Result, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["export", str(fedrod.folder), "--out", str(tmp_path / "ex"), "--client", "2", "--generic", "--json"]
    assert main(words) == 0
    said = capsys.readouterr().out.splitlines()
    told = json.loads(said[-1])
    assert [each["client"] for each in told["models"]] == [None, "2"]
    assert all(each["differences"]["torch"] <= 1e-6 for each in told["models"])
    assert "Largest difference" in said[-2] and "64 samples of the common test set" in said[-2]
    assert [each.folder for each in read_index(tmp_path / "ex")] == ["generic", "client-2"]


def test_figures_are_those_of_the_record(fedrod: motet.Result, exported: Path) -> None:
    model = motet.load_model(exported, 0)
    (row,) = [row for row in fedrod.clients if row["client"] == 0 and row["round"] == 2]
    assert model.figures["personal.split.accuracy"] == row["personal.split.accuracy"]
    generic = motet.load_model(exported).figures
    assert generic["generic.common.accuracy.pooled"] == fedrod.generic.accuracy
    assert not [name for name in generic if not name.startswith("generic.")]


# ---------------------------------------------------------------- predictions


def test_predictions_are_named(exported: Path, fedrod: motet.Result, tmp_path: Path, capsys: Any) -> None:
    np.savez(tmp_path / "new.npz", x=DIGITS, y=load_digits().target[:40])
    words = ["predict", str(exported), str(tmp_path / "new.npz"), "--client", "0", "--out", str(tmp_path / "p.csv")]
    assert main(words) == 0
    with (tmp_path / "p.csv").open() as file:
        rows = list(csv.DictReader(file))
    right = torch.softmax(fedrod.personal_model(0)(DIGITS), 1)
    assert [row["prediction"] for row in rows] == [str(i) for i in right.argmax(1).tolist()]
    assert [float(row["probability of 7"]) for row in rows] == pytest.approx(right[:, 7].tolist(), abs=1e-5)
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
    assert set(rows[0][2:]) == {f"probability of {name}" for name in names}


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
    assert [float(row["probability of dog"]) for row in rows] == pytest.approx([float(white)] * 2, abs=1e-5)
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
