"""fedrod-conv-1m: a network of FED-ROD's size for CIFAR."""

from collections import OrderedDict

from torch import nn

from motet.data.input import Input
from motet.nets.blocks import dense_stage, refuse_small
from motet.nets.fedrod_conv import init_normal
from motet.nets.info import NetInfo
from motet.nets.net import Net

SMALLEST = 8


def build(input: Input, classes: int, split: str | None = None) -> Net:
    """Three padded 5x5 convolutions, 64 features, a head without bias: an extractor of 1,021,056 at 32x32x3.

    The paper gives no channels and counts 1,025,610; 64, 128 and 192 come nearest among tidy ones.
    """
    refuse_small("fedrod-conv-1m", input, SMALLEST)
    height, width = (side // SMALLEST for side in input.shape[1:])
    stages: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=_conv_stage(input.shape[0], 64),
        conv2=_conv_stage(64, 128),
        conv3=_conv_stage(128, 192),
        fc1=dense_stage(192 * height * width, 64),
        fc2=nn.Linear(64, classes, bias=False),
    )
    net = Net(stages, input, split)
    for module in net.modules():
        init_normal(module)
    return net


def _conv_stage(channels_in: int, channels_out: int) -> nn.Sequential:
    """conv 5x5 that keeps the size, max-pool 2x2, ReLU (pooling first: see blocks.conv_stage)."""
    conv = nn.Conv2d(channels_in, channels_out, 5, padding=2)
    return nn.Sequential(conv, nn.MaxPool2d(2), nn.ReLU(inplace=True))


ENTRY = NetInfo(
    name="fedrod-conv-1m",
    summary="three padded 5x5 convolutions, 64 features, a head without bias, for images from 8x8",
    paper="FED-ROD, Chen and Chao, ICLR 2022",
    accepts=("image",),
    example=Input("image", (3, 32, 32)),
    build=build,
)
