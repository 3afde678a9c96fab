"""cnn4: the 4-layer CNN of McMahan et al., used by PGFed and DBE."""

from collections import OrderedDict

from torch import nn

from motet.data.input import Input
from motet.nets.blocks import conv_stage, dense_stage, flat_size_after_two
from motet.nets.info import NetInfo
from motet.nets.net import Net


def build(input: Input, classes: int, split: str | None = None) -> Net:
    """McMahan et al. (AISTATS 2017) as in PGFed (ICCV 2023, section 5.1) and DBE (NeurIPS 2023).

    582,026 parameters at 28x28x1 and 878,538 at 32x32x3, for 10 classes.
    """
    flat = flat_size_after_two("cnn4", input, channels_out=64)
    stages: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=conv_stage(input.shape[0], 32),
        conv2=conv_stage(32, 64),
        fc1=dense_stage(flat, 512),
        fc2=nn.Linear(512, classes),
    )
    return Net(stages, input, split)


ENTRY = NetInfo(
    name="cnn4",
    summary="two 5x5 convolutions and two linear layers, for images from 16x16",
    paper="McMahan et al., AISTATS 2017; PGFed, ICCV 2023; DBE, NeurIPS 2023",
    accepts=("image",),
    example=Input("image", (1, 28, 28)),
    build=build,
)
