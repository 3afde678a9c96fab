"""The networks: their sizes, their stages, and what they refuse."""

from collections import OrderedDict

import pytest
import torch
from inputs import input_of
from torch import nn

from motet.data import Input
from motet.data.input import Kind
from motet.errors import MotetError
from motet.nets import NETS, Net, build_net, describe_nets
from motet.rng import seeded
from motet.weights import Layout, parameter_count

SHAPES = {"mlp": (1, 8, 8), "cnn4": (3, 20, 17), "fedrod-conv": (1, 28, 28), "twonn": (1, 8, 8), "twocnn": (3, 9, 12)}
SPLITS = [(name, stage) for name in NETS for stage in build_net(name, input_of(*SHAPES[name]), 10).stage_names[1:]]


@pytest.mark.parametrize(
    ("name", "shape", "classes", "parameters"),
    [
        ("cnn4", (1, 28, 28), 10, 582_026),
        ("cnn4", (3, 32, 32), 10, 878_538),
        ("fedrod-conv", (1, 28, 28), 10, 103_346 + 500),
        ("mlp", (1, 8, 8), 10, 64 * 128 + 128 + 128 * 64 + 64 + 64 * 10 + 10),
    ],
)
def test_parameter_counts(name: str, shape: tuple[int, ...], classes: int, parameters: int) -> None:
    assert parameter_count(build_net(name, input_of(*shape), classes)) == parameters


def test_fedrod_extractor_and_head() -> None:
    net = build_net("fedrod-conv", input_of(1, 28, 28), 10)
    body = sum(p.numel() for name, p in net.named_parameters() if not name.startswith(net.head_names()))
    assert body == 103_346
    assert net.feature_shape() == (50,)
    assert net.fc2.bias is None


def test_fedrod_weights_are_normal_and_biases_zero() -> None:
    with seeded(0, "init"):
        weights = build_net("fedrod-conv", input_of(1, 28, 28), 10).state_dict()
    for name, w in weights.items():
        if name.endswith("bias"):
            assert w.abs().max() == 0
        else:
            z = w.flatten() * (w[0].numel() / 2) ** 0.5
            assert z.std() == pytest.approx(1, abs=0.1)
            assert z.abs().max() > 2.5  # a uniform distribution of this spread ends at 1.73


@pytest.mark.parametrize(("split", "shape"), [("conv2", (32, 30, 30)), ("fc1", (64, 13, 13)), ("fc2", (512,))])
def test_cnn4_feature_maps_are_those_of_dbe_table_1(split: str, shape: tuple[int, ...]) -> None:
    assert build_net("cnn4", input_of(3, 64, 64), 200, split).feature_shape() == shape


@pytest.mark.parametrize(("name", "split"), SPLITS)
def test_head_of_body_is_the_net(name: str, split: str) -> None:
    net = build_net(name, input_of(*SHAPES[name]), 7, split)
    x = torch.randn(4, *SHAPES[name])
    if x.dim() == 4:
        x = x.contiguous(memory_format=torch.channels_last)
    z = net.body(x)
    assert tuple(z.shape[1:]) == net.feature_shape()
    assert torch.equal(net.head(z), net(x))
    assert net(x).shape == (4, 7)
    stages = {name.split(".")[0] for name, _ in net.named_parameters() if name.startswith(net.head_names())}
    assert stages == set(net.stage_names[net.stage_names.index(split) :])


def test_bound_channels_last_weights_give_the_same_logits() -> None:
    net = build_net("cnn4", input_of(3, 32, 32), 10)
    x = torch.randn(4, 3, 32, 32)
    before = net(x)
    layout = Layout(net)
    layout.bind(net, layout.flatten(net))
    assert net.conv2.conv.weight.is_contiguous(memory_format=torch.channels_last)
    assert torch.allclose(net(x.contiguous(memory_format=torch.channels_last)), before, atol=1e-5)


def test_pooling_first_equals_relu_first() -> None:
    stage = build_net("cnn4", input_of(1, 28, 28), 10).conv1
    relu_first = nn.Sequential(stage.conv, nn.ReLU(), stage.pool)
    x = torch.randn(8, 1, 28, 28)
    results = []
    for f in (stage, relu_first):
        stage.zero_grad()
        y = f(x)
        y.square().sum().backward()
        results.append((y.detach(), stage.conv.weight.grad.clone()))
    assert torch.equal(results[0][0], results[1][0])
    assert torch.equal(results[0][1], results[1][1])


def test_parameter_names_read_well() -> None:
    names = list(dict(build_net("cnn4", input_of(1, 28, 28), 10).named_parameters()))
    assert [n for n in names if n.endswith("weight")] == [
        "conv1.conv.weight",
        "conv2.conv.weight",
        "fc1.linear.weight",
        "fc2.weight",
    ]


def test_modules_beside_the_stages_take_no_part() -> None:
    net = build_net("mlp", input_of(64), 10)
    x = torch.randn(3, 64)
    before = net(x)
    net.add_module("personal_head", nn.Linear(64, 3))
    assert torch.equal(net(x), before)


def test_feature_shape_keeps_the_mode() -> None:
    net = build_net("mlp", input_of(64), 10).train()
    net.feature_shape()
    assert net.training and net.fc1.training


@pytest.mark.parametrize(
    ("name", "shape", "split", "words"),
    [
        ("cnn5", (1, 28, 28), None, ["unknown net 'cnn5'", "did you mean 'cnn4'", "fedrod-conv", "mlp"]),
        ("cnn4", (1, 28, 28), "conv1", ["net.head", "'conv1'", "conv2, fc1, fc2"]),
        ("cnn4", (1, 28, 28), "fc9", ["net.head", "'fc9'", "conv2, fc1, fc2"]),
        ("cnn4", (1, 8, 8), None, ["net 'cnn4' cannot take image (1, 8, 8)", "accepted: image", "at least 16"]),
        ("cnn4", (64,), None, ["net 'cnn4' cannot take vector (64,); accepted: image"]),
        ("twocnn", (9, 128), None, ["net 'twocnn' cannot take signal (9, 128); accepted: image"]),
        ("fedrod-conv", (1, 28, 15), None, ["'fedrod-conv'", "(1, 28, 15)", "at least 16"]),
    ],
)
def test_refusals(name: str, shape: tuple[int, ...], split: str | None, words: list[str]) -> None:
    with pytest.raises(MotetError) as caught:
        build_net(name, input_of(*shape), 10, split)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_classes_are_refused() -> None:
    with pytest.raises(MotetError, match="number of classes is 0; accepted: 1 or more"):
        build_net("mlp", input_of(64), 0)


@pytest.mark.parametrize("name", NETS)
def test_every_net_refuses_each_kind_that_it_does_not_declare(name: str) -> None:
    examples = {
        "image": Input("image", (3, 32, 32)),
        "signal": Input("signal", (9, 128)),
        "vector": Input("vector", (64,)),
    }
    examples["tokens"] = Input("tokens", (20,), 100)
    for kind, example in examples.items():
        if kind in NETS[name].accepts:
            assert build_net(name, example, 4)(example.example(2)).shape == (2, 4)
        else:
            with pytest.raises(MotetError) as caught:
                build_net(name, example, 4)
            assert str(caught.value) == f"net {name!r} cannot take {example}; accepted: {', '.join(NETS[name].accepts)}"


@pytest.mark.parametrize(
    ("kind", "shape", "vocabulary", "words"),
    [
        ("image", (28, 28), 0, r"image input has shape \(28, 28\); accepted: \(channels, height, width\)"),
        ("vector", (), 0, r"vector input has shape \(\); accepted: \(features\)"),
        ("signal", (9, 0), 0, r"signal input has shape \(9, 0\); accepted: .* each at least 1"),
        ("tokens", (20,), 0, "tokens input has a vocabulary of 0; accepted: 1 or more for tokens"),
        ("vector", (20,), 5, "vector input has a vocabulary of 5; accepted: .* 0 otherwise"),
    ],
)
def test_an_input_that_is_none(kind: Kind, shape: tuple[int, ...], vocabulary: int, words: str) -> None:
    with pytest.raises(MotetError, match=words):
        Input(kind, shape, vocabulary)


@pytest.mark.parametrize(
    "name",
    ["head", "body", "forward", "split", "input", "another", "rows", "stage_names", "training", "a.b", "", "_modules"],
)
def test_a_stage_with_a_name_that_nets_use_is_refused(name: str) -> None:
    stages = OrderedDict([("fc1", nn.Linear(4, 4)), (name, nn.Linear(4, 4)), ("fc2", nn.Linear(4, 2))])
    with pytest.raises(MotetError, match=f"net has a stage named {name!r}, .*; accepted: any other name"):
        Net(stages, input_of(4))


def test_a_net_of_one_stage_has_no_head() -> None:
    with pytest.raises(MotetError, match=r"net has stages \['fc1'\]; accepted: at least two"):
        Net(OrderedDict(fc1=nn.Linear(4, 2)), input_of(4))


@pytest.mark.parametrize(
    ("layer", "expected"),
    [(nn.BatchNorm1d(4), True), (nn.SyncBatchNorm(4), True), (nn.LayerNorm(4), False), (nn.Dropout(), False)],
)
def test_whether_a_net_normalizes_batches(layer: nn.Module, expected: bool) -> None:
    deep = nn.Sequential(OrderedDict(linear=nn.Linear(4, 4), inner=nn.Sequential(layer)))
    net = Net(OrderedDict(fc1=deep, fc2=nn.Linear(4, 2)), input_of(4))
    assert net.normalizes_batches is expected
    assert not build_net("cnn4", input_of(1, 28, 28), 10).normalizes_batches


def test_features_of_tokens() -> None:
    class Mean(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.mean(1)

    stages = OrderedDict(words=nn.Embedding(50, 6), mean=Mean(), fc=nn.Linear(6, 3))
    assert Net(stages, Input("tokens", (20,), 50)).feature_shape() == (6,)
    assert Net(stages, Input("tokens", (20,), 50), "mean").feature_shape() == (20, 6)


def test_the_smallest_image_works() -> None:
    assert build_net("cnn4", input_of(1, 16, 16), 10)(torch.zeros(2, 1, 16, 16)).shape == (2, 10)


def test_describe_nets() -> None:
    described = {net["name"]: net for net in describe_nets()}
    assert set(described) == set(NETS)
    assert described["cnn4"]["stages"] == ["conv1", "conv2", "fc1", "fc2"]
    assert (described["cnn4"]["accepts"], described["cnn4"]["example"]) == (["image"], "image (1, 28, 28)")
    assert described["cnn4"]["parameters"] == 582_026
    assert all(net["summary"] and net["paper"] for net in described.values())
