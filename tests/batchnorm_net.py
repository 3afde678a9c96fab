"""A small net that normalizes over batches, named in tests as `batchnorm_net.py:build`."""

from collections import OrderedDict

from torch import nn

from motet.data import Input
from motet.nets import Net


def build(input: Input, classes: int, split: str | None = None) -> Net:
    """Images of any size: a convolution with BatchNorm, a linear layer with BatchNorm, a head."""
    channels, height, width = input.shape
    conv = nn.Sequential(nn.Conv2d(channels, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten())
    fc1 = nn.Sequential(nn.Linear(4 * height * width, 16), nn.BatchNorm1d(16), nn.ReLU())
    return Net(OrderedDict(conv=conv, fc1=fc1, fc2=nn.Linear(16, classes)), input, split)
