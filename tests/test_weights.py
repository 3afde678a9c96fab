"""A model is a vector: the flat algebra agrees with the same algebra tensor by tensor."""

from collections import OrderedDict

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from motet.training.flat_weights import Layout, frozen, is_finite, matches


def conv_net(channels: int = 3, hidden: int = 4, classes: int = 2) -> nn.Sequential:
    """Convolution, BatchNorm with its buffers, a linear head; takes images of 5x5."""
    return nn.Sequential(
        OrderedDict(
            conv=nn.Conv2d(channels, hidden, 3),
            norm=nn.BatchNorm2d(hidden),
            flat=nn.Flatten(),
            head=nn.Linear(hidden * 9, classes),
        )
    )


sizes = st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4))
privates = st.sets(st.sampled_from(["conv.", "norm.", "head.", "*.bias", "norm.running_*"]))


def present(module: nn.Module) -> dict[str, Tensor]:
    return {name: t.detach().clone() for name, t in [*module.named_parameters(), *module.named_buffers()]}


@given(sizes, privates)
def test_flatten_then_bind_changes_nothing(sizes: tuple[int, int, int], private: set[str]) -> None:
    net = conv_net(*sizes)
    before = present(net)
    layout = Layout(net, private)
    flat = layout.flatten(net)
    layout.bind(net, flat)
    assert flat.numel() == layout.size == sum(t.numel() for t in before.values())
    assert all(torch.equal(t, before[name].float()) for name, t in present(net).items())
    assert torch.equal(layout.flatten(net), flat)


@given(sizes, privates)
def test_named_views_alias_the_flat_vector(sizes: tuple[int, int, int], private: set[str]) -> None:
    net = conv_net(*sizes)
    layout = Layout(net, private)
    flat = layout.flatten(net)
    layout.bind(net, flat)
    flat.copy_(torch.arange(layout.size))
    named = layout.named(flat)
    for name, t in present(net).items():
        assert torch.equal(named[name], t)
        assert named[name].flatten().sort().values.tolist() == list(range(*_range(layout, name)))
    named["head.weight"].zero_()
    assert net.head.weight.abs().sum() == 0


def _range(layout: Layout, name: str) -> tuple[int, int]:
    return layout.places[name].where.start, layout.places[name].where.stop


def test_convolutions_lie_channels_last() -> None:
    net = conv_net()
    layout = Layout(net)
    flat = layout.flatten(net)
    kernel = layout.named(flat)["conv.weight"]
    assert kernel.shape == net.conv.weight.shape
    assert kernel.is_contiguous(memory_format=torch.channels_last)
    where = layout.places["conv.weight"].where
    assert torch.equal(flat[where], net.conv.weight.detach().permute(0, 2, 3, 1).flatten())


@given(privates)
def test_regions(private: set[str]) -> None:
    net = conv_net()
    layout = Layout(net, private)
    names = set(layout.places)
    kept = {name for name in names if matches(name, private)}
    parameters = set(dict(net.named_parameters()))
    assert _filled(layout, layout.private) == kept
    assert _filled(layout, layout.shared) == names - kept
    assert _filled(layout, layout.trainable) == parameters
    assert _filled(layout, layout.shared_trainable) == parameters - kept
    assert {name for name, place in layout.places.items() if place.is_buffer} == names - parameters


def _filled(layout: Layout, region: slice) -> set[str]:
    """The names that lie in a region; they must fill it exactly."""
    inside = {n for n, p in layout.places.items() if p.where.start >= region.start and p.where.stop <= region.stop}
    size = sum(layout.places[n].where.stop - layout.places[n].where.start for n in inside)
    assert size == region.stop - region.start
    return inside


def test_added_parameters_lie_beside_the_nets_own() -> None:
    """Own weights are one slice, whoever keeps them; what was added and travels comes first, what stays last."""
    layout = Layout(conv_net(), private=["norm.", "head."], added=["conv.bias", "head."])
    assert _filled(layout, layout.added) == {"conv.bias"}
    assert _filled(layout, layout.shared_trainable) == {"conv.weight"}
    assert _filled(layout, layout.own) == {"conv.weight", "norm.weight", "norm.bias"}
    assert _filled(layout, layout.private_added) == {"head.weight", "head.bias"}
    assert _filled(layout, layout.private_trainable) == {"norm.weight", "norm.bias", "head.weight", "head.bias"}
    assert layout.outside(layout.own) == set(layout.places) - {"conv.weight", "norm.weight", "norm.bias"}


@pytest.mark.parametrize(
    ("name", "pattern", "fits"),
    [
        ("head.weight", "head.", True),
        ("head.weight", "head", True),
        ("head.weight", "head.*", True),
        ("head.weight", "*.weight", True),
        ("prbm", "prbm", True),
        ("conv10.weight", "conv1", False),
        ("conv10.weight", "conv1.", False),
        ("conv1.weight", "conv1", True),
        ("header", "head", False),
    ],
)
def test_patterns(name: str, pattern: str, fits: bool) -> None:
    assert matches(name, [pattern]) is fits


def test_frozen_parameters_have_no_gradient_inside_the_block() -> None:
    net = conv_net()
    with frozen(net, {"conv.weight", "norm.running_mean"}):
        assert not net.conv.weight.requires_grad and net.conv.bias.requires_grad
    assert net.conv.weight.requires_grad


def test_gradients_land_in_the_flat_buffer() -> None:
    torch.manual_seed(0)
    net, twin = conv_net(), conv_net()
    twin.load_state_dict(net.state_dict())
    x = torch.randn(6, 3, 5, 5)
    layout = Layout(net, private=["head."])
    w, g = layout.flatten(net), torch.zeros(layout.size)
    layout.bind(net, w, g)
    for _ in range(2):  # the second backward adds to the first
        net(x).square().sum().backward()
        twin(x).square().sum().backward()
    for name, p in twin.named_parameters():
        assert torch.allclose(layout.places[name].view(g), p.grad, rtol=1e-4, atol=1e-4), name
    assert g[: layout.trainable.start].abs().sum() == 0
    before = present(net)
    w[layout.trainable] -= 0.1 * g[layout.trainable]
    for name, p in net.named_parameters():
        assert torch.allclose(p, before[name] - 0.1 * layout.places[name].view(g))


def test_running_statistics_are_written_into_the_vector() -> None:
    net, twin = conv_net(), conv_net()
    twin.load_state_dict(net.state_dict())
    layout = Layout(net)
    flat = layout.flatten(net)
    layout.bind(net, flat)
    x = torch.randn(6, 3, 5, 5) + 2
    net(x), twin(x)
    assert torch.allclose(layout.named(flat)["norm.running_mean"], twin.norm.running_mean, atol=1e-6)
    assert layout.named(flat)["norm.num_batches_tracked"] == 1


def test_binding_without_gradients_drops_the_old_ones() -> None:
    net = conv_net()
    net(torch.randn(2, 3, 5, 5)).sum().backward()
    layout = Layout(net)
    layout.bind(net, layout.flatten(net))
    assert all(p.grad is None for p in net.parameters())


def test_a_parameter_used_twice_has_one_place() -> None:
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    net[1].weight = net[0].weight
    layout = Layout(net)
    w, g = layout.flatten(net), torch.zeros(layout.size)
    layout.bind(net, w, g)
    assert layout.size == 9 + 3 + 3
    net(torch.ones(1, 3)).sum().backward()
    assert net[1].weight is net[0].weight and g.abs().sum() > 0


@given(privates, privates)
def test_convert_between_layouts(mine: set[str], yours: set[str]) -> None:
    net = conv_net()
    a, b = Layout(net, mine), Layout(net, yours)
    flat = a.flatten(net)
    assert torch.equal(a.convert(flat, b), b.flatten(net))
    assert torch.equal(b.convert(a.convert(flat, b), a), flat)
    part = Layout(nn.Sequential(OrderedDict(head=net.head)))
    assert torch.equal(a.convert(flat, part), part.flatten(nn.Sequential(OrderedDict(head=net.head))))


def test_put_copies() -> None:
    source, target = conv_net(), conv_net()
    layout = Layout(source)
    flat = layout.flatten(source)
    layout.put(flat, target)
    assert all(torch.equal(t, present(source)[name]) for name, t in present(target).items())
    assert target.norm.num_batches_tracked.dtype == torch.int64
    flat.zero_()
    assert target.conv.weight.abs().sum() > 0


def test_two_batch_norms_train_while_bound() -> None:
    """Statistics of one layer change between another's forward and backward pass."""
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 4), nn.BatchNorm1d(4))
    layout = Layout(net)
    w = layout.flatten(net)
    g = torch.zeros_like(w)
    layout.bind(net, w, g)
    before = w.clone()
    net(torch.randn(8, 3)).square().sum().backward()
    assert not torch.equal(w[layout.places["1.running_mean"].where], before[layout.places["1.running_mean"].where])
    assert g[layout.places["0.weight"].where].abs().sum() > 0


@pytest.mark.parametrize(
    ("values", "finite"),
    [
        ([1.0, -2.0], True),
        ([3e38, 3e38], True),  # though their sum is not
        ([1.0, float("nan")], False),
        ([float("inf"), float("-inf")], False),
        ([], True),
    ],
)
def test_is_finite(values: list[float], finite: bool) -> None:
    assert is_finite(torch.tensor(values)) is finite
