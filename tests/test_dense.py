"""Linear layers in a row as one step of autograd: torch's own numbers."""

from collections import OrderedDict

import pytest
import torch
from inputs import input_of
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from motet.nets import Net, build_net
from motet.nets.blocks import dense_stage
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
