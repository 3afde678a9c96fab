"""fedrod-conv-small: a small network of FED-ROD's authors for CIFAR."""

from collections import OrderedDict

from torch import nn

from motet.data.input import Input
from motet.nets.blocks import dense_stage, refuse_small
from motet.nets.fedrod_conv import init_normal
from motet.nets.info import NetInfo
from motet.nets.net import Net

SMALLEST = 18  # a side that leaves the last convolution one position


def build(input: Input, classes: int, split: str | None = None) -> Net:
    """Three 3x3 convolutions, 64 features, a head without bias: the extractor has 121,920 parameters at 32x32x3.

    The lead author's earlier code has it. The centralized 85.4 % of the paper need fedrod-conv-1m.
    """
    refuse_small("fedrod-conv-small", input, SMALLEST)
    height, width = (((side - 2) // 2 - 2) // 2 - 2 for side in input.shape[1:])
    stages: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=_conv_stage(input.shape[0], 32, nn.MaxPool2d(2)),
        conv2=_conv_stage(32, 64, nn.MaxPool2d(2)),
        conv3=_conv_stage(64, 64),
        fc1=dense_stage(64 * height * width, 64),
        fc2=nn.Linear(64, classes, bias=False),
    )
    net = Net(stages, input, split)
    for module in net.modules():
        init_normal(module)
    return net


def _conv_stage(channels_in: int, channels_out: int, *pool: nn.Module) -> nn.Sequential:
    """conv 3x3 without padding, pooling or none, ReLU (pooling first: see blocks.conv_stage)."""
    return nn.Sequential(nn.Conv2d(channels_in, channels_out, 3), *pool, nn.ReLU(inplace=True))


ENTRY = NetInfo(
    name="fedrod-conv-small",
    summary="three 3x3 convolutions, 64 features, a head without bias, for images from 18x18",
    paper="after FED-ROD, Chen and Chao, ICLR 2022",
    accepts=("image",),
    example=Input("image", (3, 32, 32)),
    build=build,
)
