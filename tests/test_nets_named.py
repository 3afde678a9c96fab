"""Nets by name, with options in brackets: one way to write them, wherever a net is named."""

from pathlib import Path

import pytest
import torch
from inputs import input_of

import motet
from motet.cli import main
from motet.config.experiment import resolve
from motet.config.identity import fingerprint
from motet.data import FederationFacts, Input, build
from motet.errors import MotetError
from motet.nets import build_net, net_term
from motet.runs.record import Record
from motet.runs.trust import imports_of, require_trust
from motet.server.assembly import settle, told_to_methods
from motet.server.memory_estimate import refuse_what_needs_too_much

MINE = """
from collections import OrderedDict
from torch import nn


class Whole(nn.Module):
    def __init__(self, input, classes, width=8):
        super().__init__()
        self.features = nn.Sequential(nn.Flatten(), nn.Linear(64, width), nn.ReLU())
        self.classifier = nn.Sequential(nn.Linear(width, 5), nn.ReLU(), nn.Linear(5, classes))

    def forward(self, x):
        return self.classifier(self.features(x))


def row(input, classes, split, width=8, bias=True):
    first = nn.Linear(64, width, bias=bias)
    return nn.Sequential(OrderedDict(flat=nn.Flatten(), fc1=first, fc2=nn.Linear(width, classes)))


def anything(*told, **options):
    return row(*told)


def classes_only(classes):
    return nn.Linear(64, classes)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("resnet8", "resnet8"),
        ("ResNet8( norm = group )", "resnet8(norm=group)"),
        ("mlp(hidden=64)", "mlp(hidden=64)"),
        ("stacked-lstm(hidden=16,bias=false)", "stacked-lstm(hidden=16, bias=false)"),
        ("mine.py:row(width = 3)", "mine.py:row(width=3)"),
        ("a folder/mine.py:row", "a folder/mine.py:row"),
    ],
)
def test_one_way_to_write_it(text: str, canonical: str) -> None:
    assert str(net_term(text)) == canonical
    if "folder" not in text:
        assert settle(resolve({"net": {"name": text}})).net.name == canonical


def test_two_ways_to_write_it_are_one_experiment() -> None:
    one, other, third = (
        fingerprint(settle(resolve({"net": {"name": name}})))
        for name in ("resnet8(norm=group)", "resnet8( norm=group)", "resnet8")
    )
    assert one == other != third


def test_a_run_with_options_in_the_net(folder: Path) -> None:
    result = motet.run(net="mlp(hidden=12x6)", clients=4, rounds=1, subset=0.2, out=folder / "run")
    assert Record(result.folder).experiment.net.name == "mlp(hidden=12x6)"
    net = result.generic_model().model
    assert [p.shape[0] for p in net.parameters() if p.dim() == 2] == [12, 6, 10]


def test_options_of_ones_own_function() -> None:
    net = build_net("mine.py:row(width=3, bias=false)", input_of(1, 8, 8), 4)
    assert net.fc1.weight.shape == (3, 64) and net.fc1.bias is None
    assert net.another().fc1.weight.shape == (3, 64)
    with pytest.raises(MotetError, match=r"net 'mine.py:row' is a function of \(input, classes, split, width=8"):
        build_net("mine.py:row(depth=3)", input_of(1, 8, 8), 4)
    assert build_net("mine.py:anything", input_of(1, 8, 8), 4).fc2.weight.shape == (4, 8)


def test_a_module_that_is_told_no_split(folder: Path) -> None:
    """`--net mine.py:Whole --head classifier`: the head may be several layers."""
    net = build_net("mine.py:Whole(width=6)", input_of(1, 8, 8), 4, "classifier")
    assert net.feature_shape() == (6,)
    assert sum(p.numel() for name, p in net.named_parameters() if name.startswith(net.head_names())) == 6 * 5 + 5 + 24
    last = build_net("mine.py:Whole", input_of(1, 8, 8), 4, "classifier.2")
    assert last.feature_shape() == (5,)
    words = ["--net", "mine.py:Whole", "--head", "classifier", "--method", "fedper", "--clients", "4"]
    assert main(["run", *words, "--subset", "0.2", "--rounds", "1", "--out", "there"]) == 0
    recorded = Record(folder / "there").experiment.net
    assert (recorded.name, recorded.head) == ("mine.py:Whole", "classifier")
    with pytest.raises(MotetError, match=r"is a function of \(classes\); accepted: one of \(input, classes, split\)"):
        build_net("mine.py:classes_only", input_of(1, 8, 8), 4)


def test_code_behind_options_is_code(folder: Path) -> None:
    """A folder from somebody else names a net with options: it is not run without a word."""
    asked = resolve({"net": {"name": "mine.py:row(width=3)"}})
    assert imports_of(asked) == ["mine.py:row"]
    with pytest.raises(MotetError, match=r"would run code of .*mine.py, which you did not run yourself"):
        require_trust(asked, folder, said=False)


def test_a_net_with_options_is_weighed_before_it_is_built() -> None:
    asked = settle(resolve({"net": {"name": "mlp(hidden=100000x100000)"}, "data": {"clients": 4}}))
    facts = FederationFacts.of(build(asked.data, 0))
    with pytest.raises(MotetError, match=r"net 'mlp.*' on image .*; accepted: a smaller net"):
        refuse_what_needs_too_much(asked, facts, told_to_methods(asked, facts))


def test_features_of_every_net_are_known_without_weights() -> None:
    """What FED-ROD's hypernetwork will cost is asked of nets on torch's meta device."""
    with torch.device("meta"):
        net = build_net("stacked-lstm", Input("tokens", (12,), 30), 4)
    assert net.feature_shape() == (256,)
