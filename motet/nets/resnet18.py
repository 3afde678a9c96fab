"""resnet18: the ResNet of 18 layers, with the stem that fits the size of the images."""

from typing import Literal

from pydantic import Field
from torch import nn

from motet.data.input import Input
from motet.nets.blocks import BatchByDefault, Norm
from motet.nets.info import NetInfo
from motet.nets.net import Net
from motet.nets.residual import ELSEWHERE, conv3, init_residual, residual_stages, stem

LARGE = 64  # pixels

Stem = Literal["auto", "small", "large"]


class Options(BatchByDefault):
    """Options of `resnet18(...)`."""

    stem: Stem = Field(
        "auto", description="3x3 for small images, 7x7 with stride and pooling for large ones; auto: by 64 pixels"
    )


def build(input: Input, classes: int, split: str | None, norm: Norm, stem: Stem) -> Net:
    """11,173,962 parameters at 32x32x3 for 10 classes, 11,689,512 with the large stem for 1000."""
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


ENTRY = NetInfo(
    name="resnet18",
    summary="four residual stages of 64 to 512 channels, two blocks each",
    paper="He et al., CVPR 2016; DBE, NeurIPS 2023; FedBasis 2022",
    accepts=("image",),
    example=Input("image", (3, 32, 32)),
    build=build,
    options=Options,
    elsewhere=ELSEWHERE,
)
