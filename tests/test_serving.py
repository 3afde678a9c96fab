"""A run folder serves its models on a machine that has none of its data."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

import motet
from motet.data import DataSettings, build
from motet.data.prepare import Prepare, restored
from motet.messages.message import decode
from motet.runs.serving_file import CONSTANTS, FACTS

DIGITS = load_digits()
CITIES = ["Aachen", "Bonn", "Cologne", "Dresden", "Essen", "Fulda"]
DEAL: dict[str, Any] = {"partition": "natural", "new_clients": 0.2}
SMALL: dict[str, Any] = {"rounds": 2, "epochs": 1, "lr": 0.05, "cohort": 1.0, "net": "mlp", **DEAL}


def write_data(folder: Path) -> Path:
    """Digits of six cities, with names of clients and classes."""
    folder.mkdir()
    some = np.arange(0, 1797, 3)
    np.savez(
        folder / "cities.npz",
        x=DIGITS.images[some].astype(np.uint8),
        y=np.array([f"digit {label}" for label in DIGITS.target[some]]),
        client=np.array(CITIES)[np.arange(len(some)) % 6],
    )
    return folder / "cities.npz"


def moved(method: str, tmp_path: Path, **changes: Any) -> tuple[motet.Result, motet.Result]:
    """A run beside its data, and a copy of its folder after the data are gone."""
    data = write_data(tmp_path / "data")
    here = motet.run(method=method, data=data, **{**SMALL, **changes}, out=tmp_path / "run")
    shutil.copytree(tmp_path / "run", tmp_path / "elsewhere" / "copy")
    return here, motet.load(tmp_path / "elsewhere" / "copy")


def lose(tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "data")
    shutil.rmtree(tmp_path / "run")


def old(here: motet.Result) -> motet.Result:
    """As a folder of an older Motet: served with its data."""
    (here.folder / FACTS).unlink()
    return motet.load(here.folder)


@pytest.mark.parametrize("method", ["fedavg", "scaffold", "ditto", "fedrep", "local", "superfed-mm", "fedavg+dbe"])
def test_models_without_data_are_those_with_data(method: str, tmp_path: Path) -> None:
    here, copy = moved(method, tmp_path)
    with_data = old(here)
    new = [row["client"] for row in here.clients if row["new"]]
    names = [i for i in range(6) if i not in new]
    expected = [with_data.personal_model(i)(DIGITS.images) for i in names]
    generic = None if method in ("local", "fedrep") else with_data.generic_model()(DIGITS.images)
    adapted = with_data.adapt(DIGITS.images[:40], DIGITS.target[:40])(DIGITS.images) if method != "local" else None
    lose(tmp_path)
    for i, logits in zip(names, expected, strict=True):
        assert torch.equal(copy.personal_model(i)(DIGITS.images), logits)
        assert torch.equal(copy.personal_model(copy.client_names[i])(DIGITS.images), logits)
    if generic is not None:
        assert torch.equal(copy.generic_model()(DIGITS.images), generic)
    if adapted is not None:
        assert torch.equal(copy.adapt(DIGITS.images[:40], DIGITS.target[:40])(DIGITS.images), adapted)


@pytest.mark.parametrize("method", ["fedavg+ft", "fedbasis", "fedrod(head=hyper)"])
def test_what_is_made_of_a_clients_own_data_says_so(method: str, tmp_path: Path) -> None:
    here, copy = moved(method, tmp_path)
    assert torch.equal(copy.personal_model(0)(DIGITS.images), old(here).personal_model(0)(DIGITS.images))  # still there
    lose(tmp_path)
    copy = motet.load(copy.folder)
    said = r"the personal model of client Aachen is made of the client's own data by method .*accepted: a machine"
    with pytest.raises(motet.MotetError, match=said) as caught:
        copy.personal_model("Aachen")
    assert len(str(caught.value)) < 600
    assert copy.generic_model()(DIGITS.images).shape == (1797, 10)
    if method == "fedrod(head=hyper)":
        assert copy.adapt(counts=[1] * 10)(DIGITS.images).shape == (1797, 10)
    assert copy.adapt(DIGITS.images[:40], DIGITS.target[:40])(DIGITS.images).shape == (1797, 10)


def test_a_new_clients_model_needs_its_data(tmp_path: Path) -> None:
    here, copy = moved("fedavg", tmp_path)
    new = next(row["client"] for row in here.clients if row["new"])
    lose(tmp_path)
    with pytest.raises(motet.MotetError, match="is made of the client's own data"):
        copy.personal_model(new)


def test_names_are_kept(tmp_path: Path) -> None:
    _, copy = moved("fedavg", tmp_path)
    lose(tmp_path)
    assert copy.client_names == CITIES and copy.class_names == [f"digit {i}" for i in range(10)]
    with pytest.raises(motet.MotetError, match="no client is named 'Kologne'; accepted: such as 'Cologne'"):
        copy.personal_model("Kologne")
    for wrong in (-1, 6, True, 1.0, None):
        with pytest.raises(motet.MotetError, match="is not there; accepted: 0 to 5, or a name"):
            copy.personal_model(wrong)  # type: ignore[arg-type]


def test_outputs_carry_no_graph(tmp_path: Path) -> None:
    _, copy = moved("fedavg", tmp_path)
    for model in (copy.generic_model(), copy.personal_model(0), copy.adapt(DIGITS.images[:9], DIGITS.target[:9])):
        logits = model(DIGITS.images[:5])
        assert not logits.requires_grad and logits.grad_fn is None
        assert logits.numpy().shape == (5, 10)


def test_no_class_counts_and_no_samples_are_kept(tmp_path: Path) -> None:
    here, _ = moved("fedavg", tmp_path)
    federation = build(DataSettings(name=str(tmp_path / "data" / "cities.npz"), **DEAL), 0)
    text = (here.folder / FACTS).read_text()
    for client in federation.clients:
        counts = client.train.counts(10).tolist()
        assert ", ".join(map(str, counts)) not in text and ",".join(map(str, counts)) not in text
    assert set(decode((here.folder / CONSTANTS).read_bytes())) == {"scale", "shift"}


@pytest.mark.parametrize("kind", ["image", "vector", "signal", "tokens"])
@pytest.mark.parametrize("normalize", ["standard", "half", "none"])
def test_a_preparation_comes_back(kind: str, normalize: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    shapes = {"image": (60, 4, 5, 3), "vector": (60, 7), "signal": (60, 2, 9), "tokens": (60, 6)}
    x = rng.integers(0, 50, shapes[kind]).astype(np.int64 if kind == "tokens" else np.float32)
    np.savez(tmp_path / "a.npz", x=x, y=np.arange(60) % 3)
    settings = {"name": str(tmp_path / "a.npz"), "kind": kind, "normalize": normalize, "clients": 3, "partition": "iid"}
    prepare = build(DataSettings.model_validate(settings), 0).prepare
    again = restored(*prepare.saved())
    assert type(again) is type(prepare) and again.input == prepare.input
    assert torch.equal(again.raw(x), prepare.raw(x))


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "smell"},
        {"shape": [0]},
        {"shape": [2**20, 2**20]},
        {"shape": "7"},
        {"shape": [True]},
        {"kind": "tokens", "vocabulary": -1},
        {"constants": True},
    ],
)
def test_a_preparation_that_is_none(change: dict[str, Any]) -> None:
    words = {"kind": "vector", "shape": [7], "vocabulary": 0, "constants": False}
    assert isinstance(restored(words, {}), Prepare)
    with pytest.raises(ValueError):
        restored(words | change, {})
