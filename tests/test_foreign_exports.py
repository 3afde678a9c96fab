"""Folders that no export wrote are refused, whatever is wrong with them."""

import json
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import motet
from motet.errors import MotetError
from motet.export import folder as folders
from motet.messages.message import decode, encode

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
    "one is of whole numbers": lambda t: t.update({"net.fc1.linear.bias": t["net.fc1.linear.bias"].long()}),
    "one is of other numbers": lambda t: t.update({"net.fc1.linear.bias": t["net.fc1.linear.bias"].double()}),
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
