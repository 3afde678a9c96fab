"""twocnn: SuPerFed's network for CIFAR-10, two convolutions and three linear layers without biases."""

from collections import OrderedDict

from torch import nn

from motet.data.input import Input
from motet.nets.blocks import refuse_small
from motet.nets.info import NetInfo
from motet.nets.net import Net
from motet.nets.twonn import bias_free, xavier

SMALLEST = 6  # a side that leaves the second convolution one position


def build(input: Input, classes: int, split: str | None = None) -> Net:
    """Two convolutions | three linear layers, as in SuPerFed's code; 722,800 parameters at 28x28x3 for 10 classes."""
    refuse_small("twocnn", input, SMALLEST)
    height, width = (_side(_side(side)) for side in input.shape[1:])
    stages: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=_conv_stage(input.shape[0], 32),
        conv2=_conv_stage(32, 64),
        fc1=bias_free(64 * height * width, 200),
        fc2=bias_free(200, 200),
        fc3=nn.Linear(200, classes, bias=False),
    )
    return xavier(Net(stages, input, split or "fc1"))


def _conv_stage(channels_in: int, channels_out: int) -> nn.Sequential:
    """conv 5x5 with padding 1, max-pool 2x2 with padding 1, ReLU (pooling first: see blocks.conv_stage)."""
    conv = nn.Conv2d(channels_in, channels_out, 5, padding=1, bias=False)
    return nn.Sequential(OrderedDict(conv=conv, pool=nn.MaxPool2d(2, padding=1), relu=nn.ReLU(inplace=True)))


def _side(side: int) -> int:
    """A picture's side after one such stage: 28 becomes 14, 14 becomes 7."""
    return (side - 2) // 2 + 1


ENTRY = NetInfo(
    name="twocnn",
    summary="two padded 5x5 convolutions and three linear layers without biases, for images from 6x6",
    paper="SuPerFed, Hahn et al., KDD 2022",
    accepts=("image",),
    example=Input("image", (3, 32, 32)),
    build=build,
)
