"""What the VGGs share: 3x3 convolutions that keep the size, and pooling that halves it."""

from collections import OrderedDict
from collections.abc import Sequence

from torch import nn

from motet.nets.blocks import Norm, normalization

Widths = Sequence[Sequence[int]]
"""Channels of the convolutions of each stage."""


def vgg_stages(
    channels: int, widths: Widths, norm: Norm, bias: bool, *last: nn.Module
) -> "OrderedDict[str, nn.Module]":
    """conv1, conv2, … each ends in pooling (before its last ReLU: see blocks.conv_stage); `last` ends the last one."""
    stages: OrderedDict[str, nn.Module] = OrderedDict()
    for i, stage in enumerate(widths, 1):
        parts: list[nn.Module] = []
        for j, width in enumerate(stage, 1):
            parts += [nn.Conv2d(channels, width, 3, padding=1, bias=bias), normalization(norm, width)]
            parts += [nn.MaxPool2d(2)] * (j == len(stage)) + [nn.ReLU(inplace=True)]
            channels = width
        parts += last if i == len(widths) else ()
        stages[f"conv{i}"] = nn.Sequential(*(part for part in parts if not isinstance(part, nn.Identity)))
    return stages
