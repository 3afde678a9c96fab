"""fedrep-conv: FedRep's network for CIFAR, which FedBasis uses too."""

from collections import OrderedDict

from torch import nn

from motet.data.input import Input
from motet.nets.blocks import conv_stage, dense_stage, flat_size_after_two
from motet.nets.info import NetInfo
from motet.nets.net import Net


def build(input: Input, classes: int, split: str | None = None) -> Net:
    """Two convolutions of 64 channels, linear layers of 120 and 64: 307,842 parameters at 32x32x3 for 10 classes."""
    flat = flat_size_after_two("fedrep-conv", input, channels_out=64)
    stages: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=conv_stage(input.shape[0], 64),
        conv2=conv_stage(64, 64),
        fc1=dense_stage(flat, 120),
        fc2=dense_stage(120, 64),
        fc3=nn.Linear(64, classes),
    )
    return Net(stages, input, split)


ENTRY = NetInfo(
    name="fedrep-conv",
    summary="two 5x5 convolutions and three linear layers, for images from 16x16",
    paper="FedRep, Collins et al., ICML 2021; FedBasis 2022",
    accepts=("image",),
    example=Input("image", (3, 32, 32)),
    build=build,
)
