"""Residual stages (He et al., CVPR 2016), of which the ResNets are made.

Names inside a stage are those of torchvision's ResNets, so that its weights fit: see `ELSEWHERE`.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, pad

from motet.nets.blocks import Norm, normalization, pooled

Shortcut = Literal["pad", "convolve"]

ELSEWHERE = {"conv1.": "layer1.conv1.", "bn1.": "layer1.bn1."}
"""torchvision's stem stands before the first stage; here it is a part of it."""


class Block(nn.Module):
    """Two 3x3 convolutions, and a way around them."""

    def __init__(self, channels_in: int, channels_out: int, stride: int, norm: Norm, shortcut: Shortcut):
        super().__init__()
        self.conv1 = conv3(channels_in, channels_out, stride)
        self.bn1 = normalization(norm, channels_out)
        self.conv2 = conv3(channels_out, channels_out)
        self.bn2 = normalization(norm, channels_out)
        self.downsample: nn.Module | None = None
        if stride > 1 or channels_in != channels_out:
            self.downsample = (
                Padded(stride, channels_out - channels_in)
                if shortcut == "pad"
                else nn.Sequential(
                    nn.Conv2d(channels_in, channels_out, 1, stride, bias=False), normalization(norm, channels_out)
                )
            )

    def forward(self, x: Tensor) -> Tensor:
        """ReLU(F(x) + x)"""
        y = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu_()))
        return torch.relu_(y + (x if self.downsample is None else self.downsample(x)))


class Padded(nn.Module):
    """A way around without weights: every `stride`-th position, and zeros for the channels that are new."""

    def __init__(self, stride: int, new: int):
        super().__init__()
        self.stride, self.new = stride, new

    def forward(self, x: Tensor) -> Tensor:
        """Half of the zeros before the channels, half behind them.

        Pooling over one position picks what slicing would, and keeps the order of memory on its way back: a seventh of
        ResNet-8's step.
        """
        before = self.new // 2
        return pad(avg_pool2d(x, 1, self.stride), (0, 0, 0, 0, before, self.new - before))


def conv3(channels_in: int, channels_out: int, stride: int = 1) -> nn.Conv2d:
    """A 3x3 convolution that keeps the size, or halves it."""
    return nn.Conv2d(channels_in, channels_out, 3, stride, 1, bias=False)


def stem(conv: nn.Conv2d, norm: Norm, pool: bool) -> list[tuple[str, nn.Module]]:
    """What comes before the first residual block; it belongs to the first stage."""
    parts = [("conv1", conv), ("bn1", normalization(norm, conv.out_channels)), ("relu", nn.ReLU(inplace=True))]
    return [*parts, ("maxpool", nn.MaxPool2d(3, 2, 1))] if pool else parts


def residual_stages(
    first: Sequence[tuple[str, nn.Module]],
    widths: Sequence[int],
    strides: Sequence[int],
    blocks: int,
    norm: Norm,
    shortcut: Shortcut,
) -> "OrderedDict[str, nn.Module]":
    """layer1, layer2, … with so many blocks each: `first` begins the first, the mean over positions ends the last."""
    stages: OrderedDict[str, nn.Module] = OrderedDict()
    channels, last = widths[0], len(widths)
    for i, (width, stride) in enumerate(zip(widths, strides, strict=True), 1):
        parts = list(first) if i == 1 else []
        for b in range(blocks):
            parts.append((str(b), Block(channels, width, 1 if b else stride, norm, shortcut)))
            channels = width
        stages[f"layer{i}"] = nn.Sequential(OrderedDict([*parts, *(pooled() if i == last else ())]))
    return stages


def init_residual(net: nn.Module) -> None:
    """Convolutions from N(0, 2 / fan-out), as He et al. (ICCV 2015) have it for ReLU."""
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
