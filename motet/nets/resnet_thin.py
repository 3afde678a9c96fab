"""What resnet8 and resnet20 share: He et al.'s ResNets for CIFAR, three stages of 16, 32 and 64 channels."""

from torch import nn

from motet.data.input import Input
from motet.nets.blocks import Norm
from motet.nets.net import Net
from motet.nets.residual import conv3, init_residual, residual_stages, stem

PAPER = "He et al., CVPR 2016, section 4.2"


def build_thin(blocks: int, input: Input, classes: int, split: str | None, norm: Norm) -> Net:
    """6·blocks + 2 layers; ways around without weights (the paper's option A)."""
    first = stem(conv3(input.shape[0], 16), norm, pool=False)
    stages = residual_stages(first, (16, 32, 64), (1, 2, 2), blocks, norm, "pad")
    stages["fc"] = nn.Linear(64, classes)
    net = Net(stages, input, split)
    init_residual(net)
    return net
