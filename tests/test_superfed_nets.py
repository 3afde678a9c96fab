"""SuPerFed's networks: sizes as printed, no biases, Xavier-normal weights, the head where the paper has it."""

import math

import pytest
import torch
from inputs import input_of
from torch import nn

from motet.errors import MotetError
from motet.nets import build_net
from motet.training.flat_weights import parameter_count
from motet.training.randomness import seeded


@pytest.mark.parametrize(
    ("name", "shape", "parameters", "head", "features"),
    [
        ("twonn", (1, 28, 28), 238_800, 42_000, (200,)),
        ("twocnn", (3, 28, 28), 722_800, 669_200, (64, 7, 7)),
    ],
)
def test_sizes(name: str, shape: tuple[int, ...], parameters: int, head: int, features: tuple[int, ...]) -> None:
    net = build_net(name, input_of(*shape), 10)
    assert parameter_count(net) == parameters
    in_head = sum(p.numel() for each, p in net.named_parameters() if each.startswith(net.head_names()))
    assert in_head == head  # the last two layers of twonn, the three linear ones of twocnn
    assert net.feature_shape() == features


@pytest.mark.parametrize(("name", "shape"), [("twonn", (1, 28, 28)), ("twocnn", (3, 28, 28))])
def test_no_biases_and_xavier_normal_weights(name: str, shape: tuple[int, ...]) -> None:
    with seeded(0, "init"):
        weights = build_net(name, input_of(*shape), 10).state_dict()
    for each, w in weights.items():
        assert each.endswith("weight")
        window = math.prod(w.shape[2:])
        z = w.flatten() * ((w.shape[0] + w.shape[1]) * window / 2) ** 0.5
        assert z.std() == pytest.approx(1, abs=0.05), each
        assert z.abs().max() > 2.5, each  # a uniform distribution of this spread ends at 1.73
    alike = [w for w in weights.values() if w.shape == (200, 200)]
    assert all(not torch.equal(alike[0], other) for other in alike[1:])  # the released code seeds every layer alike


@pytest.mark.parametrize("shape", [(7,), (3, 8), (1, 8, 8), (3, 32, 32)])
def test_twonn_flattens_any_sample(shape: tuple[int, ...]) -> None:
    net = build_net("twonn", input_of(*shape), 4)
    assert net(torch.randn(5, *shape)).shape == (5, 4)
    assert parameter_count(net) == math.prod(shape) * 200 + 2 * 200 * 200 + 200 * 4


@pytest.mark.parametrize(("height", "width"), [(6, 6), (6, 9), (8, 8), (28, 28), (32, 32), (33, 17)])
def test_twocnn_takes_any_image_from_6x6(height: int, width: int) -> None:
    assert build_net("twocnn", input_of(1, height, width), 4)(torch.randn(2, 1, height, width)).shape == (2, 4)


def test_twocnn_is_the_papers_function() -> None:
    net = build_net("twocnn", input_of(3, 28, 28), 10)
    x = torch.randn(4, 3, 28, 28)
    pool = nn.MaxPool2d(2, padding=1)
    z = pool(net.conv1.conv(x).relu())
    assert z.shape == (4, 32, 14, 14)
    z = pool(net.conv2.conv(z).relu()).flatten(1)
    assert z.shape == (4, 3136)
    z = net.fc2.linear(net.fc1.linear(z).relu()).relu()
    assert torch.equal(net(x), net.fc3(z))


@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        ("twocnn", (784,), "accepted: image"),
        ("twocnn", (1, 28, 5), "at least 6"),
    ],
)
def test_refusals(name: str, shape: tuple[int, ...], words: str) -> None:
    with pytest.raises(MotetError) as caught:
        build_net(name, input_of(*shape), 10)
    assert f"'{name}'" in str(caught.value) and str(shape) in str(caught.value) and words in str(caught.value)
