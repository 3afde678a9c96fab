"""Residual nets: resnet8 and resnet20 for small images, resnet18, and SuPerFed's resnet9."""

from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, pad

from motet.data.input import Input
from motet.nets.blocks import BatchByDefault, Norm, normalization, pooled
from motet.nets.mlp import bias_free, xavier
from motet.nets.net import Net, NetEntry

Shortcut = Literal["pad", "convolve"]

ELSEWHERE = {"conv1.": "layer1.conv1.", "bn1.": "layer1.bn1."}
"""torchvision's stem stands before the first stage; here it is a part of it."""


class Block(nn.Module):
    """A residual block: two 3x3 convolutions and a shortcut around them."""

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
        """Return ReLU(F(x) + x)."""
        y = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu_()))
        return torch.relu_(y + (x if self.downsample is None else self.downsample(x)))


class Padded(nn.Module):
    """A shortcut without weights: every `stride`-th position, and zeros for the new channels."""

    def __init__(self, stride: int, new: int):
        super().__init__()
        self.stride, self.new = stride, new

    def forward(self, x: Tensor) -> Tensor:
        """Return x with half of the zeros before its channels and half after them.

        Pooling over one position picks what slicing would, but keeps the memory format in the backward pass, which
        saves a seventh of ResNet-8's step.
        """
        before = self.new // 2
        return pad(avg_pool2d(x, 1, self.stride), (0, 0, 0, 0, before, self.new - before))


def conv3(channels_in: int, channels_out: int, stride: int = 1) -> nn.Conv2d:
    """Return a 3x3 convolution that keeps the size, or halves it."""
    return nn.Conv2d(channels_in, channels_out, 3, stride, 1, bias=False)


def stem(conv: nn.Conv2d, norm: Norm, pool: bool) -> list[tuple[str, nn.Module]]:
    """Return the layers before the first residual block; they belong to the first stage."""
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
    """Return layer1, layer2, … with so many blocks each: `first` begins the first, the mean over positions ends the
    last."""
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
    """Draw convolutions from N(0, 2 / fan-out), as He et al. (ICCV 2015) do for ReLU."""
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


# -------- What resnet8 and resnet20 share


PAPER = "He et al., CVPR 2016, section 4.2"


def build_thin(blocks: int, input: Input, classes: int, split: str | None, norm: Norm) -> Net:
    """Build a net of 6·blocks + 2 layers with shortcuts without weights (the paper's option A)."""
    first = stem(conv3(input.shape[0], 16), norm, pool=False)
    stages = residual_stages(first, (16, 32, 64), (1, 2, 2), blocks, norm, "pad")
    stages["fc"] = nn.Linear(64, classes)
    net = Net(stages, input, split)
    init_residual(net)
    return net


# -------- resnet8: the ResNet of 8 layers for small images


RESNET8 = NetEntry(
    name="resnet8",
    summary="residual stages of 16, 32 and 64 channels, one block each, for small images",
    paper=PAPER,
    accepts=("image",),
    example=Input("image", (3, 32, 32)),
    build=partial(build_thin, 1),
    options=BatchByDefault,
)


# -------- resnet20: the ResNet of 20 layers for small images


RESNET20 = NetEntry(
    name="resnet20",
    summary="residual stages of 16, 32 and 64 channels, three blocks each, for small images",
    paper=PAPER,
    accepts=("image",),
    example=Input("image", (3, 32, 32)),
    build=partial(build_thin, 3),
    options=BatchByDefault,
)


# -------- resnet18: the ResNet of 18 layers, with the stem that fits the size of the images


LARGE = 64  # side in pixels from which images get the large stem

Stem = Literal["auto", "small", "large"]


class ResNetOptions(BatchByDefault):
    """Options of `resnet18(...)`."""

    stem: Stem = Field(
        "auto", description="3x3 for small images, 7x7 with stride and pooling for large ones; auto: by 64 pixels"
    )


def build_resnet18(input: Input, classes: int, split: str | None, norm: Norm, stem: Stem) -> Net:
    """Build the net: 11,173,962 parameters at 32x32x3 for 10 classes, 11,689,512 with the large stem for 1000."""
    large = stem == "large" or (stem == "auto" and min(input.shape[1:]) >= LARGE)
    stages = residual_stages(
        _stem(input.shape[0], large, norm), (64, 128, 256, 512), (1, 2, 2, 2), blocks=2, norm=norm, shortcut="convolve"
    )
    stages["fc"] = nn.Linear(512, classes)
    net = Net(stages, input, split)
    init_residual(net)
    return net


def _stem(channels: int, large: bool, norm: Norm) -> list[tuple[str, nn.Module]]:
    conv = nn.Conv2d(channels, 64, 7, 2, 3, bias=False) if large else conv3(channels, 64)
    return stem(conv, norm, pool=large)


RESNET18 = NetEntry(
    name="resnet18",
    summary="four residual stages of 64 to 512 channels, two blocks each",
    paper="He et al., CVPR 2016; DBE, NeurIPS 2023; FedBasis 2022",
    accepts=("image",),
    example=Input("image", (3, 32, 32)),
    build=build_resnet18,
    options=ResNetOptions,
    elsewhere=ELSEWHERE,
)


# -------- resnet9: SuPerFed's residual network, four stages of one block each


def build_resnet9(input: Input, classes: int, split: str | None, norm: Norm) -> Net:
    """Build a stem that makes images a quarter as wide, stages of 64 to 512 channels | two linear layers, no biases.

    The released code leaves out the shortcut of the first block, which needs no convolution; here it is there.
    """
    first = stem(conv3(input.shape[0], 64, stride=2), norm, pool=True)
    stages = residual_stages(first, (64, 128, 256, 512), (1, 1, 2, 2), blocks=1, norm=norm, shortcut="convolve")
    stages["fc1"] = bias_free(512, 256)
    stages["fc2"] = nn.Linear(256, classes, bias=False)
    return xavier(Net(stages, input, split or "fc1"))


RESNET9 = NetEntry(
    name="resnet9",
    summary="four residual stages of 64 to 512 channels, one block each, and two linear layers",
    paper="SuPerFed, Hahn et al., KDD 2022",
    accepts=("image",),
    example=Input("image", (3, 32, 32)),
    build=build_resnet9,
    options=BatchByDefault,
)

ENTRIES = (RESNET8, RESNET20, RESNET18, RESNET9)
