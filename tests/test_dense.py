"""Linear layers in a row as one step of autograd: torch's own numbers."""

from collections import OrderedDict
from collections.abc import Callable

import pytest
import torch
from inputs import input_of
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from motet.nets import Net, build_net
from motet.nets.blocks import dense_stage
from motet.nets.criterion import Criterion
from motet.nets.dense import as_layer, leading_row
from motet.training.flat_weights import Layout


def after_backward(net: Net, rows: bool, x: Tensor, y: Tensor, bound: bool = True) -> dict[str, Tensor | None]:
    net.rows = rows
    layout = Layout(net)
    layout.bind(net, layout.flatten(net), torch.full((layout.size,), 0.25) if bound else None)
    x = x.clone().requires_grad_()
    with net.collecting():
        cross_entropy(net(x), y).backward()
    return {name: p.grad for name, p in net.named_parameters()} | {"x": x.grad}


@pytest.mark.parametrize("name", ["twonn", "mlp", "cnn4", "fedrod-conv", "twocnn"])
@pytest.mark.parametrize("bound", [True, False])
def test_gradients_are_torchs_and_are_added_to_what_is_there(name: str, bound: bool) -> None:
    torch.manual_seed(0)
    net = build_net(name, input_of(1, 28, 28), 10)
    x, y = torch.randn(7, 1, 28, 28), torch.arange(7)
    ours, theirs = (after_backward(net, rows, x, y, bound) for rows in (True, False))
    for parameter, found in ours.items():
        torch.testing.assert_close(found, theirs[parameter], msg=parameter)
        assert found is not None and not torch.allclose(found, torch.full_like(found, 0.25 if bound else 0.0)), (
            parameter
        )


def test_the_row_is_really_taken() -> None:
    net = build_net("twonn", input_of(1, 28, 28), 10)
    x = torch.zeros(2, 1, 28, 28)
    assert "_Row" not in str(net(x).grad_fn)
    with net.collecting():
        assert "_Row" in str(net(x).grad_fn) and "_Row" in str(net.head(net.body(x)).grad_fn)
        net.rows = False
    with net.collecting():
        assert "_Row" not in str(net(x).grad_fn)


def test_a_single_layer_is_taken_where_it_is_large() -> None:
    net, x = build_net("cnn4", input_of(1, 28, 28), 10), torch.zeros(2, 1, 28, 28)
    with net.collecting():
        assert "_Row" in str(net.body(x).grad_fn) and "_Row" not in str(net.head(net.body(x)).grad_fn)


def test_frozen_weights_get_no_gradient() -> None:
    net = build_net("mlp", input_of(64), 10)
    layout = Layout(net)
    g = torch.zeros(layout.size)
    layout.bind(net, layout.flatten(net), g)
    net.fc1.requires_grad_(False)
    with net.collecting():
        net(torch.randn(3, 64)).sum().backward()
    end = layout.places["fc1.linear.bias"].where.stop
    assert not g[:end].any() and g[end:].any()


def test_outside_of_collecting_a_net_is_torchs_own() -> None:
    """Gradients can be asked for and leave what is bound alone; second derivatives are right."""
    torch.manual_seed(0)
    net = build_net("mlp", input_of(64), 10)
    layout = Layout(net)
    w, g = layout.flatten(net).double(), torch.full((layout.size,), 0.5, dtype=torch.float64)
    layout.bind(net, w, g)
    x, y = torch.randn(5, 64, dtype=torch.float64), torch.arange(5)
    p = net.fc1.get_parameter(next(name for name, _ in net.fc1.named_parameters()))
    (slope,) = torch.autograd.grad(cross_entropy(net(x), y), [p], create_graph=True)
    assert g.eq(0.5).all()
    (bend,) = torch.autograd.grad(slope.square().sum(), [p])
    at, step = p.detach().clone(), 1e-6

    def length(move: float) -> Tensor:
        with torch.no_grad():
            p.copy_(at + move * bend)
        return torch.autograd.grad(cross_entropy(net(x), y), [p])[0].square().sum()

    expected = (length(step) - length(-step)) / (2 * step)
    torch.testing.assert_close(bend.square().sum(), expected, rtol=1e-4, atol=0)


def test_a_second_derivative_of_what_is_collected_is_refused() -> None:
    net, x = build_net("mlp", input_of(64), 10), torch.randn(3, 64, requires_grad=True)
    with net.collecting():
        (slope,) = torch.autograd.grad(net(x).square().sum(), [x], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        slope.sum().backward()


def test_only_plain_linear_stages_make_a_row() -> None:
    stages = [dense_stage(4, 4), nn.Linear(4, 4), nn.Sequential(OrderedDict(a=nn.Linear(4, 4), b=nn.Tanh()))]
    assert [as_layer(stage) is not None for stage in stages] == [True, True, False]
    assert [relu for _, relu in leading_row(stages)[0]] == [True, False]
    assert leading_row(stages)[1] == 2


# ------------------------------------------------------------ without autograd


def gradients(net: Net, w: Tensor, add: Callable[[Net], Tensor]) -> tuple[Tensor, Tensor]:
    """The loss that `add` returns, and the gradient that it adds to what is there."""
    layout, g = Layout(net), torch.linspace(-1, 1, len(w))
    layout.bind(net.train(), w.clone(), g)
    return add(net).detach(), g


def by_autograd(net: Net, x: Tensor, y: Tensor, share: float, halves: bool = False) -> Tensor:
    with net.collecting():
        loss = net.training_loss(net.head(net.body(x)) if halves else net(x), y) * share
        loss.backward()  # type: ignore[no-untyped-call]
    return loss


@pytest.mark.parametrize("halves", [False, True])
@pytest.mark.parametrize("name", ["logistic", "mlp(hidden=32)", "mlp(hidden=24x8)", "mlp(hidden=300x600)", "twonn"])
@pytest.mark.parametrize("size", [1, 7, 16, 33])
def test_a_row_needs_no_autograd_for_the_same_bits(name: str, size: int, halves: bool) -> None:
    torch.manual_seed(size)
    net = build_net(name, input_of(1, 28, 28), 3)
    w = Layout(net).flatten(net)
    x, y = torch.randn(size, *net.input.shape), torch.randint(3, (size,))
    for share in (1.0, 0.3):
        loss, g = gradients(net, w, lambda net, s=share: by_autograd(net, x, y, s, halves))  # type: ignore[misc]
        found, mine = gradients(net, w, lambda net, s=share: added(net, x, y, s, halves))  # type: ignore[misc]
        assert torch.equal(g, mine) and torch.equal(loss, found)


def added(net: Net, x: Tensor, y: Tensor, share: float, halves: bool) -> Tensor:
    found = net.add_row_gradient(x, y, share, halves)
    assert found is not None
    return found


@pytest.mark.parametrize("criterion", ["squared", "absolute", "huber"])
def test_nor_do_numbers(criterion: Criterion) -> None:
    net = build_net("mlp(hidden=8)", input_of(5), 1)
    net.criterion = criterion
    w, x, y = Layout(net).flatten(net), torch.randn(9, 5), torch.randn(9)
    loss, g = gradients(net, w, lambda net: by_autograd(net, x, y, 1.0))
    found, mine = gradients(net, w, lambda net: added(net, x, y, 1.0, False))
    assert torch.equal(g, mine) and torch.equal(loss, found)


def test_what_is_no_plain_row_keeps_autograd() -> None:
    x, y = torch.randn(4, 1, 8, 8), torch.randint(3, (4,))
    hooked = build_net("mlp", input_of(1, 8, 8), 3)
    hooked.get_submodule(hooked.stage_names[-1]).register_forward_hook(lambda *_: None)
    unbound, frozen = build_net("mlp", input_of(1, 8, 8), 3), build_net("mlp", input_of(1, 8, 8), 3)
    for net in (hooked, frozen):
        layout = Layout(net)
        w = layout.flatten(net)
        layout.bind(net, w, torch.zeros_like(w))
    next(frozen.parameters()).requires_grad_(False)
    assert [net.add_row_gradient(x, y) for net in (hooked, unbound, frozen)] == [None, None, None]
    loss, g = gradients(hooked, w := Layout(hooked).flatten(hooked), lambda net: by_autograd(net, x, y, 1.0))
    found, mine = gradients(hooked, w, lambda net: net.add_gradient(x, y))
    assert torch.equal(g, mine) and torch.equal(loss, found)


def test_the_shape_of_features_is_known_without_a_pass() -> None:
    for name in ("logistic", "mlp(hidden=24x8)"):
        net = build_net(name, input_of(5), 3)
        assert net.feature_shape() == tuple(net.body(torch.zeros(1, 5)).shape[1:])
