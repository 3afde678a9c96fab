"""The net of the checks that look at modes: small, with BatchNorm and dropout in its body."""

from collections import OrderedDict
from math import prod

from torch import nn

from motet.data.input import Input
from motet.nets.net import Net

NAME = "motet.testing.tiny_net:build"


def build(input: Input, classes: int, split: str | None = None) -> Net:
    """Numbers of any shape: a linear layer with BatchNorm, one with dropout, a head."""
    fc1 = nn.Sequential(nn.Flatten(), nn.Linear(prod(input.shape), 16), nn.BatchNorm1d(16), nn.ReLU())
    fc2 = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Dropout(0.2))
    return Net(OrderedDict(fc1=fc1, fc2=fc2, out=nn.Linear(16, classes)), input, split)
