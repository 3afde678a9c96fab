"""The stages that the networks are made of."""

from collections import OrderedDict
from typing import Literal

from pydantic import Field
from torch import nn

from motet.config.section import Section
from motet.data.input import Input
from motet.nets.net import wrong_input

Norm = Literal["batch", "group", "none"]
GROUPS = 2
"""Of channels, in GroupNorm: what federated learning has used since Hsieh et al. (ICML 2020)."""


class BatchByDefault(Section):
    """The options of nets that normalize over batches by default."""

    norm: Norm = Field("batch", description="BatchNorm, GroupNorm (2 groups) or nothing after each convolution")


def normalization(norm: Norm, channels: int) -> nn.Module:
    """Return the layer that normalizes what a convolution of so many channels returns."""
    if norm == "batch":
        return nn.BatchNorm2d(channels)
    return nn.GroupNorm(GROUPS, channels) if norm == "group" else nn.Identity()


def pooled() -> tuple[tuple[str, nn.Module], ...]:
    """Return stages that end a body of convolutions with the mean of each channel, as a vector."""
    return ("pool", nn.AdaptiveAvgPool2d(1)), ("flatten", nn.Flatten())


def conv_stage(channels_in: int, channels_out: int) -> nn.Sequential:
    """Return a stage: conv 5x5 without padding, ReLU, max-pool 2x2.

    Max-pooling first is the same function and the same gradient (ReLU never changes which entry is largest unless all
    are cut to zero, where the gradient is zero both ways), with a quarter of the ReLU's work.
    """
    return nn.Sequential(
        OrderedDict(conv=nn.Conv2d(channels_in, channels_out, 5), pool=nn.MaxPool2d(2), relu=nn.ReLU(inplace=True))
    )


def dense_stage(inputs: int, outputs: int) -> nn.Sequential:
    """Return a stage: flatten (no effect on vectors), linear, ReLU."""
    return nn.Sequential(
        OrderedDict(flatten=nn.Flatten(), linear=nn.Linear(inputs, outputs), relu=nn.ReLU(inplace=True))
    )


def flat_size_after_two(net: str, input: Input, channels_out: int) -> int:
    """Return how many numbers two conv stages make of an image; raise a `MotetError` for one that is too small."""
    refuse_small(net, input, 16)
    height, width = (((side - 4) // 2 - 4) // 2 for side in input.shape[1:])
    return channels_out * height * width


def refuse_small(net: str, input: Input, smallest: int) -> None:
    """Raise a `MotetError` for an image with a side below the smallest that a net can take."""
    if min(input.shape[1:]) < smallest:
        sides = f"image (channels, height, width) with height and width of at least {smallest}"
        raise wrong_input(net, input, f"{sides}, or a net for small ones such as mlp, logistic or resnet8")
