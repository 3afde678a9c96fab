"""resnet9: SuPerFed's residual network, four stages of one block each."""

from torch import nn

from motet.data.input import Input
from motet.nets.blocks import BatchByDefault, Norm
from motet.nets.info import NetInfo
from motet.nets.net import Net
from motet.nets.residual import conv3, residual_stages, stem
from motet.nets.twonn import bias_free, xavier


def build(input: Input, classes: int, split: str | None, norm: Norm) -> Net:
    """A stem that makes images a quarter as wide, stages of 64 to 512 channels | two linear layers, no biases.

    The released code leaves out the way around the first block, where it needs no convolution; here it is there.
    """
    first = stem(conv3(input.shape[0], 64, stride=2), norm, pool=True)
    stages = residual_stages(first, (64, 128, 256, 512), (1, 1, 2, 2), blocks=1, norm=norm, shortcut="convolve")
    stages["fc1"] = bias_free(512, 256)
    stages["fc2"] = nn.Linear(256, classes, bias=False)
    return xavier(Net(stages, input, split or "fc1"))


ENTRY = NetInfo(
    name="resnet9",
    summary="four residual stages of 64 to 512 channels, one block each, and two linear layers",
    paper="SuPerFed, Hahn et al., KDD 2022",
    accepts=("image",),
    example=Input("image", (3, 32, 32)),
    build=build,
    options=BatchByDefault,
)
