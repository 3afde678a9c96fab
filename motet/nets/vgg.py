"""VGG nets: 3x3 convolutions that keep the size and pooling that halves it. vgg9 is SuPerFed's, vgg11 VGG's own."""

from collections import OrderedDict
from collections.abc import Sequence

from pydantic import Field
from torch import nn

from motet.config.section import Section
from motet.data.input import Input
from motet.nets.blocks import BatchByDefault, Norm, normalization, refuse_small
from motet.nets.mlp import bias_free, xavier
from motet.nets.net import Net, NetEntry
from motet.nets.resnet import init_residual

Widths = Sequence[Sequence[int]]
"""Channels of the convolutions of each stage."""


def vgg_stages(
    channels: int, widths: Widths, norm: Norm, bias: bool, *last: nn.Module
) -> "OrderedDict[str, nn.Module]":
    """Return conv1, conv2, …; each ends in pooling (before its last ReLU: see blocks.conv_stage), the last one in
    `last`."""
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


# -------- vgg9: SuPerFed's VGG, six convolutions and two linear layers without biases


WIDTHS_VGG9 = ((16,), (32,), (64, 128), (256, 512))
SMALLEST_VGG9 = 2 ** len(WIDTHS_VGG9)


class VGGOptions(Section):
    """Options of `vgg9(...)`."""

    norm: Norm = Field("none", description="BatchNorm, GroupNorm (2 groups) or nothing after each convolution")


def build_vgg9(input: Input, classes: int, split: str | None, norm: Norm) -> Net:
    """Build convolutions of 16 to 512 channels | two linear layers; the released code has no normalization."""
    refuse_small("vgg9", input, SMALLEST_VGG9)
    stages = vgg_stages(input.shape[0], WIDTHS_VGG9, norm, False)
    height, width = (side // SMALLEST_VGG9 for side in input.shape[1:])
    stages["fc1"] = bias_free(512 * height * width, 256)
    stages["fc2"] = nn.Linear(256, classes, bias=False)
    return xavier(Net(stages, input, split or "fc1"))


VGG9 = NetEntry(
    name="vgg9",
    summary="six 3x3 convolutions and two linear layers without biases, for images from 16x16",
    paper="SuPerFed, Hahn et al., KDD 2022",
    accepts=("image",),
    example=Input("image", (3, 32, 32)),
    build=build_vgg9,
    options=VGGOptions,
)


# -------- vgg11: configuration A of VGG for small images, with one linear layer behind it


WIDTHS_VGG11 = ((64,), (128,), (256, 256), (512, 512), (512, 512))
SMALLEST_VGG11 = 2 ** len(WIDTHS_VGG11)


def build_vgg11(input: Input, classes: int, split: str | None, norm: Norm) -> Net:
    """Build the net: 9,231,114 parameters at 32x32x3 for 10 classes.

    The paper's three linear layers are for images of 224x224.
    """
    refuse_small("vgg11", input, SMALLEST_VGG11)
    stages = vgg_stages(input.shape[0], WIDTHS_VGG11, norm, True, nn.Flatten())
    height, width = (side // SMALLEST_VGG11 for side in input.shape[1:])
    stages["fc"] = nn.Linear(512 * height * width, classes)
    net = Net(stages, input, split)
    init_residual(net)
    return net


VGG11 = NetEntry(
    name="vgg11",
    summary="eight 3x3 convolutions and a linear layer, for images from 32x32",
    paper="Simonyan and Zisserman, ICLR 2015",
    accepts=("image",),
    example=Input("image", (3, 32, 32)),
    build=build_vgg11,
    options=BatchByDefault,
)

ENTRIES = (VGG9, VGG11)
