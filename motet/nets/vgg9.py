"""vgg9: SuPerFed's VGG, six convolutions and two linear layers without biases."""

from pydantic import Field
from torch import nn

from motet.data.input import Input
from motet.nets.blocks import Norm, refuse_small
from motet.nets.info import NetInfo
from motet.nets.net import Net
from motet.nets.twonn import bias_free, xavier
from motet.nets.vgg import vgg_stages
from motet.settings import Section

WIDTHS = ((16,), (32,), (64, 128), (256, 512))
SMALLEST = 2 ** len(WIDTHS)


class Options(Section):
    """Options of `vgg9(...)`."""

    norm: Norm = Field("none", description="BatchNorm, GroupNorm (2 groups) or nothing after each convolution")


def build(input: Input, classes: int, split: str | None, norm: Norm) -> Net:
    """Convolutions of 16 to 512 channels | two linear layers; the released code normalizes nowhere."""
    refuse_small("vgg9", input, SMALLEST)
    stages = vgg_stages(input.shape[0], WIDTHS, norm, False)
    height, width = (side // SMALLEST for side in input.shape[1:])
    stages["fc1"] = bias_free(512 * height * width, 256)
    stages["fc2"] = nn.Linear(256, classes, bias=False)
    return xavier(Net(stages, input, split or "fc1"))


ENTRY = NetInfo(
    name="vgg9",
    summary="six 3x3 convolutions and two linear layers without biases, for images from 16x16",
    paper="SuPerFed, Hahn et al., KDD 2022",
    accepts=("image",),
    example=Input("image", (3, 32, 32)),
    build=build,
    options=Options,
)
