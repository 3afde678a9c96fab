"""The loss that nets are trained by: cross-entropy for classes; squared, absolute or Huber loss for numbers.

Numbers are scaled to mean 0 and deviation 1 (`NumberTarget` in motet/data/schema.py), so that a learning rate fits
whatever their unit is. Huber's loss is squared up to one deviation and absolute beyond, so that outliers count less.
"""

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, huber_loss, l1_loss, mse_loss

Criterion = Literal["classes", "squared", "absolute", "huber"]


def loss_by(criterion: Criterion, outputs: Tensor, y: Tensor, reduction: str = "mean") -> Tensor:
    """Return the loss of a batch; outputs are logits (samples, classes), or numbers (samples, 1)."""
    if criterion == "classes":
        return cross_entropy(outputs, y, reduction=reduction)
    outputs = outputs.squeeze(1)
    if criterion == "squared":
        return mse_loss(outputs, y, reduction=reduction)
    if criterion == "absolute":
        return l1_loss(outputs, y, reduction=reduction)
    return huber_loss(outputs, y, reduction=reduction)


def losses_and_slopes(criterion: Criterion, outputs: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return the loss of every prediction of a number, and its derivative; both have the shape of y."""
    away = outputs.squeeze(-1) - y
    if criterion == "squared":
        return away.square(), 2 * away
    if criterion == "absolute":
        return away.abs(), away.sign()
    return huber_loss(away, torch.zeros_like(away), reduction="none"), away.clamp(-1, 1)


_nll_forward = torch.ops.aten.nll_loss_forward.default
_nll_backward = torch.ops.aten.nll_loss_backward.default
_softmax_backward = torch.ops.aten._log_softmax_backward_data.default
_MEAN, _NO_CLASS = 1, -100  # torch's numbers for a mean over the batch, and for no class that is left out


def loss_and_slope(criterion: Criterion, share: float, outputs: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean loss of a batch, times a share, and its derivative by the outputs: autograd's bits."""
    if criterion != "classes":
        with torch.enable_grad():
            leaf = outputs.detach().requires_grad_()
            loss = loss_by(criterion, leaf, y)
            loss = loss if share == 1 else loss * share
            (slope,) = torch.autograd.grad(loss, leaf)
        return loss.detach(), slope
    said = torch.log_softmax(outputs, 1)
    loss, total = _nll_forward(said, y, None, _MEAN, _NO_CLASS)
    d = _nll_backward(loss.new_full((), share), said, y, None, _MEAN, _NO_CLASS, total)
    return loss if share == 1 else loss * share, _softmax_backward(d, said, 1, said.dtype)
