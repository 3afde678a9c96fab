"""BatchNorm without a memory: every batch is normalized by its own mean and variance, when scored too."""

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


class BatchStatistics(_BatchNorm):
    """A BatchNorm layer's scale and shift, and no statistics that could be averaged or kept.

    A single sample of a single position has no variance and becomes the shift, where torch refuses it.
    """

    def __init__(self, layer: _BatchNorm):
        super().__init__(layer.num_features, layer.eps, layer.momentum, affine=False, track_running_stats=False)
        self.weight, self.bias = layer.weight, layer.bias

    def forward(self, x: Tensor) -> Tensor:
        """Normalized over the batch at hand, in training and after it."""
        return torch.batch_norm(x, self.weight, self.bias, None, None, True, 0.0, self.eps, False)


def by_batch_statistics(net: nn.Module) -> None:
    """Every BatchNorm layer of a net so."""
    for module in list(net.modules()):
        for name, layer in module.named_children():
            if isinstance(layer, _BatchNorm):
                setattr(module, name, BatchStatistics(layer))
