"""vgg11: configuration A of VGG for small images, with one linear layer behind it."""

from torch import nn

from motet.data.input import Input
from motet.nets.blocks import BatchByDefault, Norm, refuse_small
from motet.nets.info import NetInfo
from motet.nets.net import Net
from motet.nets.residual import init_residual
from motet.nets.vgg import vgg_stages

WIDTHS = ((64,), (128,), (256, 256), (512, 512), (512, 512))
SMALLEST = 2 ** len(WIDTHS)


def build(input: Input, classes: int, split: str | None, norm: Norm) -> Net:
    """9,231,114 parameters at 32x32x3 for 10 classes. The paper's three linear layers are for images of 224x224."""
    refuse_small("vgg11", input, SMALLEST)
    stages = vgg_stages(input.shape[0], WIDTHS, norm, True, nn.Flatten())
    height, width = (side // SMALLEST for side in input.shape[1:])
    stages["fc"] = nn.Linear(512 * height * width, classes)
    net = Net(stages, input, split)
    init_residual(net)
    return net


ENTRY = NetInfo(
    name="vgg11",
    summary="eight 3x3 convolutions and a linear layer, for images from 32x32",
    paper="Simonyan and Zisserman, ICLR 2015",
    accepts=("image",),
    example=Input("image", (3, 32, 32)),
    build=build,
    options=BatchByDefault,
)
