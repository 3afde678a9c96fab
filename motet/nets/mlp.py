"""mlp: two hidden layers for vectors and small images."""

import math
from collections import OrderedDict

from torch import nn

from motet.nets.blocks import dense_stage, wrong_shape
from motet.nets.net import Net


def build(input_shape: tuple[int, ...], classes: int, split: str | None = None) -> Net:
    """128 and 64 hidden units with ReLU: the shape of McMahan et al.'s 2NN (AISTATS 2017, section 3), smaller."""
    if not input_shape:
        raise wrong_shape("mlp", input_shape, "samples with at least one dimension")
    stages: OrderedDict[str, nn.Module] = OrderedDict(
        fc1=dense_stage(math.prod(input_shape), 128),
        fc2=dense_stage(128, 64),
        fc3=nn.Linear(64, classes),
    )
    return Net(stages, input_shape, split)
