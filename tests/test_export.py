"""Exported models answer as the run's own do, where nothing of the run is; foreign folders are refused."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from made_exports import DIGITS, apart, tiny
from torch import Tensor

import motet
from motet.cli import main
from motet.errors import MotetError
from motet.export.index import read_index
from motet.export.run import folder_name
from motet.methods import METHODS
from motet.methods.base import Forward, MethodEntry
from motet.methods.base.part import Part
from motet.nets import Net

FEW = ["fedavg", "fedrod(head=linear)", "fedrod+dbe", "fedbasis", "superfed-mm", "fedavg+knn-per", "fedprox+lp"]
WRAPS = [name for name, entry in METHODS.items() if entry.wraps]


def require_equal(result: motet.Result, out: Path, x: Any) -> None:
    """Every model of the run, loaded from where its run is not, gives the same logits."""
    written = result.export(out)
    assert len(written) >= len(result.client_names)
    for path in written:
        model = motet.load_model(path)
        mine = result.generic_model() if model.client is None else result.personal_model(model.client)
        assert apart(model(x), mine(x)) <= 1e-6
        assert model.class_names == result.class_names


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
        assert "samples of the run's data" in told["files"][name]["checked_on"]
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
    monkeypatch.setitem(METHODS, "doubled", MethodEntry("doubled", "for a test", "none", part=Doubled))
    result = tiny("fedavg+doubled")
    with pytest.raises(MotetError, match=r"part Doubled .*accepted: --format torch.export or onnx"):
        result.export(tmp_path / "a")
    (written,) = result.export(tmp_path / "b", [0], formats=["torch.export"])
    program = torch.export.load(written / "model.pt2").module()
    assert apart(program(torch.from_numpy(DIGITS[..., None])), result.personal_model(0)(DIGITS)) <= 1e-6
    with pytest.raises(MotetError, match=r"only model.pt2 was written"):
        motet.load_model(written)
    monkeypatch.setitem(METHODS, "twice", MethodEntry("twice", "for a test", "none", part=Twice))
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
    assert "Largest difference" in said[-2] and "64 samples of the run's data" in said[-2]
    assert [each.folder for each in read_index(tmp_path / "ex").models] == ["generic", "client-2"]


def test_figures_are_those_of_the_record(fedrod: motet.Result, exported: Path) -> None:
    model = motet.load_model(exported, 0)
    (row,) = [row for row in fedrod.clients if row["client"] == 0 and row["round"] == 2]
    assert model.figures["personal.split.accuracy"] == row["personal.split.accuracy"]
    generic = motet.load_model(exported).figures
    assert generic["generic.common.accuracy.pooled"] == fedrod.generic.accuracy
    assert not [name for name in generic if not name.startswith("generic.")]
