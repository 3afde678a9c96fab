"""mlp: two hidden layers for vectors and small images."""

import math
from collections import OrderedDict

from torch import nn

from motet.data.input import Input
from motet.nets.blocks import dense_stage
from motet.nets.info import NetInfo
from motet.nets.net import Net


def build(input: Input, classes: int, split: str | None = None) -> Net:
    """128 and 64 hidden units with ReLU: the shape of McMahan et al.'s 2NN (AISTATS 2017, section 3), smaller."""
    stages: OrderedDict[str, nn.Module] = OrderedDict(
        fc1=dense_stage(math.prod(input.shape), 128),
        fc2=dense_stage(128, 64),
        fc3=nn.Linear(64, classes),
    )
    return Net(stages, input, split)


ENTRY = NetInfo(
    name="mlp",
    summary="two hidden layers of 128 and 64 units, for vectors, signals and small images",
    paper="after McMahan et al., AISTATS 2017",
    accepts=("image", "signal", "vector"),
    example=Input("image", (1, 8, 8)),
    build=build,
)
