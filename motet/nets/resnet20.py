"""resnet20: the ResNet of 20 layers for small images."""

from functools import partial

from motet.data.input import Input
from motet.nets.blocks import BatchByDefault
from motet.nets.info import NetInfo
from motet.nets.resnet_thin import PAPER, build_thin

ENTRY = NetInfo(
    name="resnet20",
    summary="residual stages of 16, 32 and 64 channels, three blocks each, for small images",
    paper=PAPER,
    accepts=("image",),
    example=Input("image", (3, 32, 32)),
    build=partial(build_thin, 3),
    options=BatchByDefault,
)
