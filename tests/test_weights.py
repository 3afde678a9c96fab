"""A model is a vector: the flat algebra agrees with the same algebra tensor by tensor."""

from collections import OrderedDict
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from motet.errors import MotetError
from motet.weights import Layout, Weights, from_named, is_finite, matches


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
    weights = Weights.of(net, private)
    weights.layout.bind(net, weights.flat)
    weights.flat.copy_(torch.arange(weights.flat.numel()))
    for name, t in present(net).items():
        assert torch.equal(weights[name], t)
        assert weights[name].flatten().sort().values.tolist() == list(range(*_range(weights.layout, name)))
    weights["head.weight"].zero_()
    assert net.head.weight.abs().sum() == 0


def _range(layout: Layout, name: str) -> tuple[int, int]:
    return layout.places[name].where.start, layout.places[name].where.stop


@given(sizes, st.floats(-10, 10), st.integers(0, 99))
def test_algebra_agrees_with_tensor_by_tensor(sizes: tuple[int, int, int], factor: float, seed: int) -> None:
    torch.manual_seed(seed)
    a, b = Weights.of(conv_net(*sizes)), Weights.of(conv_net(*sizes))
    va, vb = a.named(), b.named()
    for name in va:
        assert torch.equal((a + b)[name], va[name] + vb[name])
        assert torch.equal((a - b)[name], va[name] - vb[name])
        assert torch.equal((a * factor)[name], va[name] * factor)
        assert torch.equal((factor * a)[name], va[name] * factor)
    assert a.dot(b) == pytest.approx(sum(float((va[n] * vb[n]).sum()) for n in va), rel=1e-4, abs=1e-4)
    assert a.norm() == pytest.approx(sum(float(t.square().sum()) for t in va.values()) ** 0.5, rel=1e-4)


def test_arithmetic_leaves_its_operands_alone() -> None:
    a = Weights.of(conv_net())
    before = a.flat.clone()
    (a + a).flat.zero_()
    (a * 1.0).flat.zero_()
    assert torch.equal(a.flat, before)


def test_weights_of_different_nets_do_not_mix() -> None:
    with pytest.raises(MotetError, match="different nets"):
        Weights.of(conv_net(hidden=4)) + Weights.of(conv_net(hidden=3))


def test_convolutions_lie_channels_last() -> None:
    net = conv_net()
    weights = Weights.of(net)
    kernel = weights["conv.weight"]
    assert kernel.shape == net.conv.weight.shape
    assert kernel.is_contiguous(memory_format=torch.channels_last)
    where = weights.layout.places["conv.weight"].where
    assert torch.equal(weights.flat[where], net.conv.weight.detach().permute(0, 2, 3, 1).flatten())


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


def test_patterns() -> None:
    layout = Layout(conv_net())
    assert layout.names("head.") == ["head.weight", "head.bias"]
    assert set(layout.names("*.bias")) == {"conv.bias", "norm.bias", "head.bias"}
    head = layout.slice_of("head.*")
    assert head.stop - head.start == 2 * 36 + 2
    mask = layout.mask("head.")
    assert mask[head].all() and mask.sum() == head.stop - head.start
    with pytest.raises(MotetError, match="do not lie side by side"):
        layout.slice_of("*.bias")
    with pytest.raises(MotetError, match=r"no parameter fits .*tail.*accepted.*head\.weight"):
        layout.slice_of("tail.")


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
    weights = Weights.of(net)
    weights.layout.bind(net, weights.flat)
    x = torch.randn(6, 3, 5, 5) + 2
    net(x), twin(x)
    assert torch.allclose(weights["norm.running_mean"], twin.norm.running_mean, atol=1e-6)
    assert weights["norm.num_batches_tracked"] == 1


def test_binding_without_gradients_drops_the_old_ones() -> None:
    net = conv_net()
    net(torch.randn(2, 3, 5, 5)).sum().backward()
    weights = Weights.of(net)
    weights.layout.bind(net, weights.flat)
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


@given(sizes, privates)
def test_safetensors_round_trip(
    tmp_path_factory: pytest.TempPathFactory, sizes: tuple[int, int, int], private: set[str]
) -> None:
    path = tmp_path_factory.mktemp("weights") / "w.safetensors"
    weights = Weights.of(conv_net(*sizes), private)
    weights.save(path)
    assert torch.equal(Weights.load(path, weights.layout).flat, weights.flat)
    other = Layout(conv_net(*sizes))  # the file holds names, not the order of a layout
    assert torch.equal(Weights.load(path, other).flat, weights.layout.convert(weights.flat, other))


def test_files_that_do_not_fit(tmp_path: Path) -> None:
    weights = Weights.of(conv_net())
    weights.save(tmp_path / "good")
    (tmp_path / "damaged").write_bytes((tmp_path / "good").read_bytes()[:100])
    for name in ("damaged", "missing"):
        with pytest.raises(MotetError, match=f"{name}.*cannot be read"):
            Weights.load(tmp_path / name, weights.layout)
    with pytest.raises(MotetError, match=r"'norm\.running_mean' has shape \(4,\); accepted: \(5,\)"):
        Weights.load(tmp_path / "good", Layout(conv_net(hidden=5)))
    with pytest.raises(MotetError, match=r"'conv\.weight' has shape None"):
        from_named({}, Layout(nn.Sequential(OrderedDict(conv=nn.Conv2d(1, 1, 3)))))


@given(privates, privates)
def test_convert_between_layouts(mine: set[str], yours: set[str]) -> None:
    net = conv_net()
    a, b = Layout(net, mine), Layout(net, yours)
    flat = a.flatten(net)
    assert torch.equal(a.convert(flat, b), b.flatten(net))
    assert torch.equal(b.convert(a.convert(flat, b), a), flat)
    part = Layout(nn.Sequential(OrderedDict(head=net.head)))
    assert torch.equal(a.convert(flat, part), part.flatten(nn.Sequential(OrderedDict(head=net.head))))


def test_put_into_copies() -> None:
    source, target = conv_net(), conv_net()
    weights = Weights.of(source)
    weights.put_into(target)
    assert all(torch.equal(t, present(source)[name]) for name, t in present(target).items())
    assert target.norm.num_batches_tracked.dtype == torch.int64
    weights.flat.zero_()
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
