"""logistic: one linear layer on the samples as they are."""

import math
from collections import OrderedDict

from torch import nn

from motet.data.input import Input
from motet.nets.info import NetInfo
from motet.nets.net import Net


def build(input: Input, classes: int, split: str | None = None) -> Net:
    """Multinomial logistic regression: the body has no weights, so that the features are the sample itself."""
    stages: OrderedDict[str, nn.Module] = OrderedDict(
        flatten=nn.Flatten(), fc=nn.Linear(math.prod(input.shape), classes)
    )
    return Net(stages, input, split)


ENTRY = NetInfo(
    name="logistic",
    summary="logistic regression: one linear layer, for vectors, signals and small images",
    paper="Cox 1958",
    accepts=("image", "signal", "vector"),
    example=Input("vector", (30,)),
    build=build,
)
