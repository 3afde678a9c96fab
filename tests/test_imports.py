"""A user's own net and data source by import: through a whole run, in worker processes, and one sentence if wrong."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from inputs import input_of

import motet
from motet.cli import main
from motet.data import Input, Source, default_net
from motet.data.readers import arrays
from motet.data.sources import load
from motet.errors import MotetError
from motet.io.plugins import load_object
from motet.nets import Net, build_net
from motet.runs.record import Record
from motet.training.randomness import seeded

NETS = """
from collections import OrderedDict
import torch
from torch import nn
from motet.data import Input
from motet.nets import Net, NetEntry


class Mean(nn.Module):
    def forward(self, x):
        return x.mean(1)


def words(input, classes, split):
    stages = OrderedDict(words=nn.Embedding(input.vocabulary, 16), mean=Mean(), fc=nn.Linear(16, classes))
    return Net(stages, input, split)


def row(input, classes, split):
    fc1, fc2 = nn.Linear(64, 20), nn.Linear(20, classes)
    return nn.Sequential(OrderedDict(flat=nn.Flatten(), fc1=fc1, relu=nn.ReLU(), fc2=fc2))


class Plain(nn.Module):
    def __init__(self, input, classes, split):
        super().__init__()
        self.conv = nn.Conv2d(input.shape[0], 4, 3)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(4 * 36, classes)

    def forward(self, x):
        return self.head(self.drop(self.conv(x).relu().flatten(1)))


class Deep(Plain):
    def __init__(self, input, classes, split):
        super().__init__(input, classes, split)
        self.head = nn.Sequential(nn.Linear(4 * 36, 8), nn.ReLU(), nn.Linear(8, classes))


class Softmax(Plain):
    def forward(self, x):
        return super().forward(x).log_softmax(1)


class Twice(Plain):
    def forward(self, x):
        return super().forward(x), x


def lazy_split(input, classes, split):
    return words(input, classes, None)


entry = NetEntry("mine", "a net", "nowhere", accepts=("image",), example=Input("image", (1, 8, 8)), build=row)
built = nn.Linear(3, 3)  # draws weights when the file is imported
number = 3


def nothing(input, classes, split):
    return "a net"


def too_wide(input, classes, split):
    return row(input, classes + 1, split)
"""
SOURCE = """
import numpy as np
from motet.data import Source, from_arrays

calls = []


def source(download):
    calls.append(download)
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    x = np.where(y[:, None] == 1, rng.integers(0, 25, (120, 12)), rng.integers(25, 50, (120, 12)))
    names = np.array(["low", "high"])[1 - y]
    return from_arrays({"x": x, "y": names, "kind": "tokens", "vocabulary": 60}, "mine")


entry = Source("mine", "tokens", "nowhere", "CC0", "twonn", source)
number = 3


def nothing(download):
    return {"x": 1}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path / "unrelated"))  # puts sys.path back in the end
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(NETS)
    (tmp_path / "texts.py").write_text(SOURCE)
    return tmp_path


def test_a_run_on_ones_own_tokens_and_net(folder: Path) -> None:
    asked: dict[str, Any] = {"data": "texts.py:source", "net": "mine.py:words", "clients": 4, "rounds": 4}
    for engine in ("inline", "pool"):
        result = motet.run(
            **asked,
            partition="iid",
            lr=0.5,
            cohort=1.0,
            out=folder / engine,
            set={"engine.name": engine, "engine.workers": 2},
        )
        assert result.generic.accuracy > 0.9
        assert Record(folder / engine).experiment.net.name == "mine.py:words"
        told = result.generic_model()(np.full((3, 12), 7)).argmax(1)
        assert told.tolist() == [1, 1, 1], "low, the second of the sorted names"
    assert (folder / "inline/weights.safetensors").read_bytes() == (folder / "pool/weights.safetensors").read_bytes()
    with pytest.raises(MotetError, match="input x holds token 60; accepted: 0 to 59"):
        result.generic_model()(np.full((3, 12), 60))
    model = result.adapt(np.full((8, 12), 30), [0] * 8)
    assert model(np.full((1, 12), 30)).shape == (1, 2)
    with pytest.raises(MotetError, match="accepted: whole numbers, which tokens are"):
        result.adapt(np.full((8, 12), 0.5), [0] * 8)


def test_on_the_command_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--clients", "3", "--partition", "iid", "--rounds", "1", "--out", "there"]
    assert main(["run", "--data", "texts.py:source", "--net", "mine.py:words", *words]) == 0
    capsys.readouterr()
    assert main(["run", "--net", "mine.py:wrods", *words[:-1], "never"]) == 2
    assert "net 'mine.py:wrods': mine.py has no 'wrods'; it has: words, " in capsys.readouterr().err
    assert main(["data", "show", "texts.py:source", "--partition", "iid", "--clients", "2", "--json"]) == 0
    assert '"counts"' in capsys.readouterr().out


def test_a_sequential_becomes_a_net(folder: Path) -> None:
    net = build_net("mine.py:row", input_of(1, 8, 8), 10)
    assert (net.stage_names, net.split) == (["flat", "fc1", "relu", "fc2"], "fc2")
    assert build_net("mine.py:row", input_of(1, 8, 8), 10, "relu").feature_shape() == (20,)
    assert torch.equal(net.head(net.body(torch.ones(2, 1, 8, 8))), net(torch.ones(2, 1, 8, 8)))
    with seeded(0, "a"):
        first, second = net.another(), net.another()
    assert not torch.equal(first.fc1.weight, second.fc1.weight)


@pytest.mark.parametrize(("name", "head", "features"), [("Plain", "head", (144,)), ("Deep", "head.2", (8,))])
def test_a_module_whose_last_layer_is_named(folder: Path, name: str, head: str, features: tuple[int, ...]) -> None:
    with seeded(0, "net"):
        net = build_net(f"mine.py:{name}", input_of(1, 8, 8), 10, head)
    with seeded(0, "net"):
        plain = load_object(f"mine.py:{name}", "net")(input_of(1, 8, 8), 10, head).eval()  # type: ignore[operator]
    x = torch.randn(5, 1, 8, 8)
    assert isinstance(net, Net) and net.training, "as it was built"
    assert torch.equal(net.eval()(x), plain(x)), "the trial draws no randomness and changes nothing"
    assert net.feature_shape() == features
    assert net.body(x).shape == (5, *features)
    assert torch.equal(net.head(net.body(x)), plain(x))


def test_such_a_module_learns(folder: Path) -> None:
    result = motet.run(
        method="fedrod", net="mine.py:Plain", clients=4, rounds=2, subset=0.3, set={"net.head": "head"}, partition="iid"
    )
    assert result.generic.accuracy > 0.2


@pytest.mark.parametrize(
    ("name", "input", "split", "sentence"),
    [
        ("Plain", input_of(1, 8, 8), None, r"is a Plain, .*; accepted: net.head \(--head\) = .*, of conv, drop, head$"),
        (
            "Plain",
            input_of(1, 8, 8),
            "haed",
            r"unknown last layer \(net.head\) of mine.py:Plain 'haed': did you mean 'head'",
        ),
        ("Plain", input_of(1, 9, 9), "head", r"cannot take samples of shape \(1, 9, 9\) \(.*\)$"),
        ("Softmax", input_of(1, 8, 8), "head", "does more after its layer 'head'; accepted: net.head = a layer whose"),
        ("Twice", input_of(1, 8, 8), "head", "returns tuple; accepted: a tensor of logits"),
        ("entry", input_of(64), None, r"net 'mine' cannot take vector \(64,\); accepted: image"),
        ("built", input_of(64), None, "is of type Linear; accepted: a function"),
        ("number", input_of(64), None, "is of type int; accepted: a function"),
        ("nothing", input_of(64), None, "built str; accepted: a Net, an nn.Sequential or an nn.Module"),
        ("too_wide", input_of(64), None, r"makes \(2, 5\) of 2 samples; accepted: \(2, 4\), one logit per class"),
        ("row", input_of(64), "fc3", r"unknown head stage \(net.head\) 'fc3': did you mean"),
        ("lazy_split", Input("tokens", (7,), 9), "mean", "has its head at 'fc'; accepted: this, or auto, as net.head"),
    ],
)
def test_refused_nets(folder: Path, name: str, input: Input, split: str | None, sentence: str) -> None:
    with pytest.raises(MotetError, match=sentence) as caught:
        build_net(f"mine.py:{name}", input, 4, split)
    assert "\n" not in str(caught.value)


def test_a_source_says_its_net_without_being_loaded(folder: Path) -> None:
    assert isinstance(load_object("texts.py:entry", "data"), Source)
    calls = load_object("texts.py:calls", "data")
    assert isinstance(calls, list)
    calls.clear()
    assert default_net("texts.py:entry") == "twonn" and calls == []
    raw = load("texts.py:entry", download=True)
    assert calls == [True]
    assert (raw.kind, raw.vocabulary, raw.class_names) == ("tokens", 60, ("high", "low"))


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("texts.py:number", "data 'texts.py:number' is int; accepted: a function from download"),
        ("texts.py:nothing", "data 'texts.py:nothing' returned dict; accepted: RawData, such as from_arrays makes"),
        ("texts.py:sauce", r"data 'texts.py:sauce': texts.py has no 'sauce'; it has: source, "),
        ("gone.py:source", "data 'gone.py:source': there is no file"),
    ],
)
def test_refused_sources(folder: Path, name: str, sentence: str) -> None:
    with pytest.raises(MotetError, match=sentence):
        load(name)


def test_ones_own_file_is_read_once_per_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    np.savez("own.npz", x=rng.normal(size=(90, 5)).astype(np.float32), y=np.arange(90) % 3)
    read: list[str] = []
    read_array = arrays.read_array

    def watch(path: Path, field: str) -> Any:
        read.append(field)
        return read_array(path, field)

    monkeypatch.setattr(arrays, "read_array", watch)
    motet.run(data="own.npz", clients=3, partition="iid", rounds=1)
    assert sorted(read) == ["x", "y"]
    assert default_net("own.npz") == "mlp"
    assert sorted(read) == ["x", "y"], "its header is enough"
