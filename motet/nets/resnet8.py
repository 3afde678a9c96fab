"""resnet8: the ResNet of 8 layers for small images."""

from functools import partial

from motet.data.input import Input
from motet.nets.blocks import BatchByDefault
from motet.nets.info import NetInfo
from motet.nets.resnet_thin import PAPER, build_thin

ENTRY = NetInfo(
    name="resnet8",
    summary="residual stages of 16, 32 and 64 channels, one block each, for small images",
    paper=PAPER,
    accepts=("image",),
    example=Input("image", (3, 32, 32)),
    build=partial(build_thin, 1),
    options=BatchByDefault,
)
