"""twonn: SuPerFed's network for MNIST-like images, four linear layers without biases."""

import math
from collections import OrderedDict

from torch import nn

from motet.data.input import Input
from motet.nets.info import NetInfo
from motet.nets.net import Net


def build(input: Input, classes: int, split: str | None = None) -> Net:
    """784-200-200 | 200-200-10 in SuPerFed's code: two layers of features, two of head.

    238,800 parameters at 28x28x1 for 10 classes. McMahan et al.'s 2NN is 784-200-200-10, with biases.
    """
    stages: OrderedDict[str, nn.Module] = OrderedDict(
        fc1=bias_free(math.prod(input.shape), 200),
        fc2=bias_free(200, 200),
        fc3=bias_free(200, 200),
        fc4=nn.Linear(200, classes, bias=False),
    )
    return xavier(Net(stages, input, split or "fc3"))


def bias_free(inputs: int, outputs: int) -> nn.Sequential:
    """Flatten (nothing to do for vectors), linear without bias, ReLU."""
    linear = nn.Linear(inputs, outputs, bias=False)
    return nn.Sequential(OrderedDict(flatten=nn.Flatten(), linear=linear, relu=nn.ReLU(inplace=True)))


def xavier(net: Net) -> Net:
    """Every weight of a layer from N(0, 2 / (fan-in + fan-out)); scales and shifts of normalization stay 1 and 0."""
    for weight in net.parameters():
        if weight.dim() > 1:
            nn.init.xavier_normal_(weight)
    return net


ENTRY = NetInfo(
    name="twonn",
    summary="four linear layers without biases, for vectors, signals and images",
    paper="SuPerFed, Hahn et al., KDD 2022",
    accepts=("image", "signal", "vector"),
    example=Input("image", (1, 28, 28)),
    build=build,
)
