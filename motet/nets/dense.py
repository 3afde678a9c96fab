"""A sequence of linear layers as one autograd node: the same products with much less overhead.

On a small net most of a training step is not arithmetic but graph nodes, temporary gradients and their sums. Here a
whole sequence ("row") of layers is one node, and each weight's gradient is added in place by the matrix product itself.

This is used only while gradients are collected (`Net.collecting`). Everywhere else a net is plain torch, with gradients
that can be asked for, and second derivatives.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeGuard, TypeVar

import torch
import torch.nn.modules.module as torch_module
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

LARGE = 2**17  # number of weights from which a single layer gains
EVERYBODYS_HOOKS = (  # hooks that torch calls for every module
    torch_module._global_forward_hooks,
    torch_module._global_forward_pre_hooks,
    torch_module._global_backward_hooks,
    torch_module._global_backward_pre_hooks,
)

_threshold_backward = torch.ops.aten.threshold_backward.default  # derivative of ReLU

Layer = tuple[nn.Linear, bool]  # a layer, and whether ReLU follows it


def as_layer(stage: nn.Module) -> Layer | None:
    """Return the linear layer of a stage that is one, alone or between flattening and ReLU; None for other stages."""
    if _is_linear(stage):
        return stage, False
    parts = list(stage._modules.values()) if is_plain(stage, nn.Sequential) else []
    if len(parts) == 3 and flattens(parts[0]) and _is_linear(parts[1]) and is_plain(parts[2], nn.ReLU):
        return parts[1], True
    return None


def leading_row(stages: Iterable[nn.Module]) -> tuple[list[Layer], int]:
    """Return the linear layers that these stages begin with, and how many stages they cover: some may only flatten."""
    row, used = list[Layer](), 0
    if any(EVERYBODYS_HOOKS):
        return row, used
    for stage in stages:
        layer = as_layer(stage)
        if layer is not None:
            row.append(layer)
        elif not flattens(stage):
            break
        used += 1
    return row, used


def takes_vectors(stage: nn.Module, dimensions: int) -> bool:
    """Return whether a row may begin with this stage: a plain linear layer on more dimensions acts on the last."""
    return dimensions == 2 or not _is_linear(stage)


def flattens(stage: nn.Module) -> bool:
    """Return whether a stage makes one vector of each sample, and does nothing else."""
    return is_plain(stage, nn.Flatten) and (stage.start_dim, stage.end_dim) == (1, -1)


Kind = TypeVar("Kind", bound=nn.Module)


def is_plain(module: nn.Module, kind: type[Kind]) -> TypeGuard[Kind]:
    """Return whether a module is torch's own, without hooks or changes: only then may a row stand for it.

    A subclass (a parametrization makes one), a `forward` of the object's own and every kind of hook would be skipped.
    """
    if type(module) is not kind:
        return False
    has = vars(module)  # called at every step: torch's own attribute lookup would be slow
    hooks = has["_forward_hooks"] or has["_forward_pre_hooks"] or has["_backward_hooks"] or has["_backward_pre_hooks"]
    return not hooks and "forward" not in has


def _is_linear(module: nn.Module) -> TypeGuard[nn.Linear]:
    """Return whether a module is a plain linear layer whose weights have no hooks, which would expect their
    gradient."""
    if not is_plain(module, nn.Linear):
        return False
    for p in module._parameters.values():
        if p is not None and (type(p) is not nn.Parameter or p._backward_hooks or p._post_accumulate_grad_hooks):
            return False
    return True


def worth_it(row: Sequence[Layer]) -> bool:
    """Return whether a row is faster: two layers or more, or one whose gradient is too large for a temporary copy."""
    return len(row) > 1 or any(layer.weight.numel() >= LARGE for layer, _ in row)


def run_row(x: Tensor, row: list[Layer]) -> Tensor:
    """Return the row's output, which can be differentiated once: torch refuses a second derivative."""
    weights = [p for layer, _ in row for p in (layer.weight, layer.bias)]
    result: Tensor = _Row.apply(x.flatten(1), [relu for _, relu in row], *weights)  # type: ignore[no-untyped-call]
    return result


class _Row(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, relus: list[bool], *weights: Tensor | None) -> Tensor:
        values = _values(x, relus, weights)
        ctx.relus, ctx.weights = relus, weights
        ctx.save_for_backward(*values)
        return values[-1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d: Tensor) -> Any:
        values, (first, _, *wanted) = ctx.saved_tensors, ctx.needs_input_grad
        gradients: list[Tensor | None] = [None] * len(wanted)
        for i in reversed(range(len(ctx.relus))):
            at_W, at_b = 2 * i, 2 * i + 1
            if ctx.relus[i]:
                d = _threshold_backward(d, values[i + 1], 0)
            if wanted[at_b]:
                gradients[at_b] = _give(ctx.weights[at_b], d)
            if wanted[at_W]:
                gradients[at_W] = _give_product(ctx.weights[at_W], d, values[i])
            if i or first:
                d = torch.mm(d, ctx.weights[at_W])
        return d if first else None, None, *gradients


def _values(x: Tensor, relus: Sequence[bool], weights: Sequence[Tensor | None]) -> list[Tensor]:
    """Return the row's input and what each of its layers makes of it."""
    values = [x]
    for relu, W, b in zip(relus, weights[::2], weights[1::2], strict=True):
        assert W is not None
        x = torch.mm(x, W.t()) if b is None else torch.addmm(b, x, W.t())
        values.append(x.relu_() if relu else x)
    return values


def _give(b: Tensor, d: Tensor) -> Tensor | None:
    """Add Σ d over the batch to the parameter's collected gradient; where there is none, return it for autograd."""
    if not b.is_leaf or b.grad is None:
        return d.sum(0)
    b.grad.add_(d.sum(0))
    return None


def _give_product(W: Tensor, d: Tensor, x: Tensor) -> Tensor | None:
    """Add dᵀx in the same way, without a temporary copy."""
    if not W.is_leaf or W.grad is None:
        return torch.mm(d.t(), x)
    W.grad.addmm_(d.t(), x)
    return None


# -------- A whole net in one row: gradients without autograd


Slope = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""From a net's outputs and the labels: the loss of the batch, and its derivative by the outputs."""


def add_row_gradient(x: Tensor, y: Tensor, rows: Sequence[Sequence[Layer]], slope: Slope) -> Tensor | None:
    """Add the gradient of a batch's loss to the weights' collected gradients, and return the loss.

    `rows` follow each other, as where body and head are computed one after the other. The same kernels run in the same
    order as with autograd, so that the bits are the same; for small nets autograd's bookkeeping takes several times as
    long as they do. Return None, and do nothing, where a weight collects no gradient.
    """
    row = [each for some in rows for each in some]
    weights = [p for layer, _ in row for p in (layer.weight, layer.bias)]
    if any(p is not None and (p.grad is None or not p.requires_grad) for p in weights):
        return None
    with torch.no_grad():
        relus = [relu for _, relu in row]
        values = _values(x.flatten(1), relus, weights)
        loss, d = slope(values[-1], y)
        in_place = [fused for some in rows for fused in [worth_it(some)] * len(some)]  # as `_Row` does; autograd not
        for i in reversed(range(len(row))):
            W, b = weights[2 * i], weights[2 * i + 1]
            assert W is not None and W.grad is not None
            if relus[i]:
                d = _threshold_backward(d, values[i + 1], 0)
            if b is not None and b.grad is not None:
                b.grad.add_(d.sum(0))
            if in_place[i]:
                W.grad.addmm_(d.t(), values[i])
            else:
                W.grad.add_(torch.mm(d.t(), values[i]))
            if i:
                d = torch.mm(d, W)
    return loss
