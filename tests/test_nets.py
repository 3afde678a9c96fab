"""The networks: their sizes, their stages, and what they refuse."""

import pytest
import torch
from torch import nn

from motet.errors import MotetError
from motet.nets import NETS, build_net, describe_nets
from motet.rng import seeded
from motet.weights import Layout, parameter_count

SHAPES = {"mlp": (1, 8, 8), "cnn4": (3, 20, 17), "fedrod-conv": (1, 28, 28), "twonn": (1, 8, 8), "twocnn": (3, 9, 12)}
SPLITS = [(name, stage) for name in NETS for stage in build_net(name, SHAPES[name], 10).stage_names[1:]]


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
    assert parameter_count(build_net(name, shape, classes)) == parameters


def test_fedrod_extractor_and_head() -> None:
    net = build_net("fedrod-conv", (1, 28, 28), 10)
    body = sum(p.numel() for name, p in net.named_parameters() if not name.startswith(net.head_names()))
    assert body == 103_346
    assert net.feature_shape() == (50,)
    assert net.fc2.bias is None


def test_fedrod_weights_are_normal_and_biases_zero() -> None:
    with seeded(0, "init"):
        weights = build_net("fedrod-conv", (1, 28, 28), 10).state_dict()
    for name, w in weights.items():
        if name.endswith("bias"):
            assert w.abs().max() == 0
        else:
            z = w.flatten() * (w[0].numel() / 2) ** 0.5
            assert z.std() == pytest.approx(1, abs=0.1)
            assert z.abs().max() > 2.5  # a uniform distribution of this spread ends at 1.73


@pytest.mark.parametrize(("split", "shape"), [("conv2", (32, 30, 30)), ("fc1", (64, 13, 13)), ("fc2", (512,))])
def test_cnn4_feature_maps_are_those_of_dbe_table_1(split: str, shape: tuple[int, ...]) -> None:
    assert build_net("cnn4", (3, 64, 64), 200, split).feature_shape() == shape


@pytest.mark.parametrize(("name", "split"), SPLITS)
def test_head_of_body_is_the_net(name: str, split: str) -> None:
    net = build_net(name, SHAPES[name], 7, split)
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
    net = build_net("cnn4", (3, 32, 32), 10)
    x = torch.randn(4, 3, 32, 32)
    before = net(x)
    layout = Layout(net)
    layout.bind(net, layout.flatten(net))
    assert net.conv2.conv.weight.is_contiguous(memory_format=torch.channels_last)
    assert torch.allclose(net(x.contiguous(memory_format=torch.channels_last)), before, atol=1e-5)


def test_pooling_first_equals_relu_first() -> None:
    stage = build_net("cnn4", (1, 28, 28), 10).conv1
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
    names = list(dict(build_net("cnn4", (1, 28, 28), 10).named_parameters()))
    assert [n for n in names if n.endswith("weight")] == [
        "conv1.conv.weight",
        "conv2.conv.weight",
        "fc1.linear.weight",
        "fc2.weight",
    ]


def test_modules_beside_the_stages_take_no_part() -> None:
    net = build_net("mlp", (64,), 10)
    x = torch.randn(3, 64)
    before = net(x)
    net.add_module("personal_head", nn.Linear(64, 3))
    assert torch.equal(net(x), before)


def test_feature_shape_keeps_the_mode() -> None:
    net = build_net("mlp", (64,), 10).train()
    net.feature_shape()
    assert net.training and net.fc1.training


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("cnn5", (1, 28, 28), 10), ["unknown net 'cnn5'", "did you mean 'cnn4'", "fedrod-conv", "mlp"]),
        (("cnn4", (1, 28, 28), 10, "conv1"), ["net.head", "'conv1'", "conv2, fc1, fc2"]),
        (("cnn4", (1, 28, 28), 10, "fc9"), ["net.head", "'fc9'", "conv2, fc1, fc2"]),
        (("cnn4", (1, 8, 8), 10), ["'cnn4'", "(1, 8, 8)", "at least 16"]),
        (("cnn4", (64,), 10), ["'cnn4'", "(64,)", "(channels, height, width)"]),
        (("fedrod-conv", (), 10), ["'fedrod-conv'", "()", "(channels, height, width)"]),
        (("fedrod-conv", (1, 28, 15), 10), ["'fedrod-conv'", "(1, 28, 15)", "at least 16"]),
        (("mlp", (), 10), ["'mlp'", "()", "at least one dimension"]),
        (("mlp", (64,), 0), ["classes is 0", "1 or more"]),
    ],
)
def test_refusals(arguments: tuple[str, tuple[int, ...], int], words: list[str]) -> None:
    with pytest.raises(MotetError) as caught:
        build_net(*arguments)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_smallest_image_works() -> None:
    assert build_net("cnn4", (1, 16, 16), 10)(torch.zeros(2, 1, 16, 16)).shape == (2, 10)


def test_describe_nets() -> None:
    described = {net["name"]: net for net in describe_nets()}
    assert set(described) == set(NETS)
    assert described["cnn4"]["stages"] == ["conv1", "conv2", "fc1", "fc2"]
    assert all(net["summary"] and net["paper"] for net in described.values())
