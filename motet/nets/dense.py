"""A row of linear layers as one step of autograd: the same products, a fraction of the bookkeeping.

On a small net most of a training step is not arithmetic but nodes of a graph, temporary gradients and their sums. Here
a whole row is one node, and each weight's gradient is added by the product itself to where it belongs.

That is for who collects gradients (`Net.collecting`). Everywhere else a net is torch's own, with gradients that can be
asked for, and second derivatives.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

LARGE = 2**17  # weights

Layer = tuple[nn.Linear, bool]  # with ReLU after it, or not


def as_layer(stage: nn.Module) -> Layer | None:
    """A stage that is a linear layer, alone or between flattening and ReLU; None for every other."""
    if type(stage) is nn.Linear:
        return stage, False
    parts = list(stage.children()) if type(stage) is nn.Sequential else []
    if [type(part) for part in parts] == [nn.Flatten, nn.Linear, nn.ReLU]:
        assert isinstance(parts[1], nn.Linear)
        return parts[1], True
    return None


def leading_row(stages: Iterable[nn.Module]) -> tuple[list[Layer], int]:
    """The linear layers that these stages begin with, and how many stages that are: some may only flatten."""
    row, used = [], 0
    for stage in stages:
        layer = as_layer(stage)
        if layer is not None:
            row.append(layer)
        elif type(stage) is not nn.Flatten or (stage.start_dim, stage.end_dim) != (1, -1):
            break
        used += 1
    return row, used


def worth_it(row: list[Layer]) -> bool:
    """Two layers and more, or one whose gradient is too large to be made first and added then."""
    return len(row) > 1 or any(layer.weight.numel() >= LARGE for layer, _ in row)


def run_row(x: Tensor, row: list[Layer]) -> Tensor:
    """The row's output, differentiable once: a second derivative is refused by torch."""
    weights = [p for layer, _ in row for p in (layer.weight, layer.bias)]
    result: Tensor = _Row.apply(x.flatten(1), [relu for _, relu in row], *weights)  # type: ignore[no-untyped-call]
    return result


class _Row(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, relus: list[bool], *weights: Tensor | None) -> Tensor:
        values = [x]
        for relu, W, b in zip(relus, weights[::2], weights[1::2], strict=True):
            assert W is not None
            x = torch.mm(x, W.t()) if b is None else torch.addmm(b, x, W.t())
            values.append(x.relu_() if relu else x)
        ctx.relus, ctx.weights = relus, weights
        ctx.save_for_backward(*values)
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d: Tensor) -> Any:
        values, (first, _, *wanted) = ctx.saved_tensors, ctx.needs_input_grad
        gradients: list[Tensor | None] = [None] * len(wanted)
        for i in reversed(range(len(ctx.relus))):
            at_W, at_b = 2 * i, 2 * i + 1
            if ctx.relus[i]:
                d = torch.ops.aten.threshold_backward(d, values[i + 1], 0)
            if wanted[at_b]:
                gradients[at_b] = _give(ctx.weights[at_b], d)
            if wanted[at_W]:
                gradients[at_W] = _give_product(ctx.weights[at_W], d, values[i])
            if i or first:
                d = torch.mm(d, ctx.weights[at_W])
        return d if first else None, None, *gradients


def _give(b: Tensor, d: Tensor) -> Tensor | None:
    """Σ d over the batch, added where the parameter collects its gradient; else for autograd to do."""
    if not b.is_leaf or b.grad is None:
        return d.sum(0)
    b.grad.add_(d.sum(0))
    return None


def _give_product(W: Tensor, d: Tensor, x: Tensor) -> Tensor | None:
    """dᵀx likewise, which then needs no memory of its own."""
    if not W.is_leaf or W.grad is None:
        return torch.mm(d.t(), x)
    W.grad.addmm_(d.t(), x)
    return None
