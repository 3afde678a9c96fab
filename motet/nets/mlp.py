"""Nets of linear layers alone: logistic, mlp and SuPerFed's twonn."""

import math
from collections import OrderedDict
from itertools import pairwise

from pydantic import Field, field_validator
from torch import nn

from motet.config.section import Section
from motet.data.input import Input
from motet.nets.blocks import dense_stage
from motet.nets.net import Net, NetEntry


def build_logistic(input: Input, classes: int, split: str | None = None) -> Net:
    """Build multinomial logistic regression: the body has no weights, so that the features are the sample itself."""
    stages: OrderedDict[str, nn.Module] = OrderedDict(
        flatten=nn.Flatten(), fc=nn.Linear(math.prod(input.shape), classes)
    )
    return Net(stages, input, split)


LOGISTIC = NetEntry(
    name="logistic",
    summary="logistic regression: one linear layer, for vectors, signals and small images",
    paper="Cox 1958",
    accepts=("image", "signal", "vector"),
    example=Input("vector", (30,)),
    build=build_logistic,
)


# -------- mlp: hidden layers for vectors and small images


WIDEST, DEEPEST = 100_000, 20


class MLPOptions(Section):
    """Options of `mlp(...)`."""

    hidden: int | str = Field("128x64", description="units of the hidden layers, joined by x")

    @field_validator("hidden")
    @classmethod
    def _some_layers(cls, hidden: int | str) -> int | str:
        sizes = str(hidden).split("x")
        if len(sizes) > DEEPEST or not all(s.isascii() and s.isdigit() and 0 < int(s) <= WIDEST for s in sizes):
            raise ValueError(
                f"accepted: units of 1 to {DEEPEST} hidden layers, each 1 to {WIDEST}, such as 64, or 128x64"
            )
        return hidden


def build_mlp(input: Input, classes: int, split: str | None, hidden: int | str) -> Net:
    """Build hidden layers with ReLU; by default 128 and 64 units, a smaller 2NN of McMahan et al. (AISTATS 2017)."""
    sizes = [math.prod(input.shape), *map(int, str(hidden).split("x"))]
    stages: OrderedDict[str, nn.Module] = OrderedDict(
        (f"fc{i}", dense_stage(*widths)) for i, widths in enumerate(pairwise(sizes), 1)
    )
    stages[f"fc{len(sizes)}"] = nn.Linear(sizes[-1], classes)
    return Net(stages, input, split)


MLP = NetEntry(
    name="mlp",
    summary="hidden layers, at first of 128 and 64 units, for vectors, signals and small images",
    paper="after McMahan et al., AISTATS 2017",
    accepts=("image", "signal", "vector"),
    example=Input("image", (1, 8, 8)),
    build=build_mlp,
    options=MLPOptions,
)


# -------- twonn: SuPerFed's network for MNIST-like images, four linear layers without biases


def build_twonn(input: Input, classes: int, split: str | None = None) -> Net:
    """Build 784-200-200 | 200-200-10 as in SuPerFed's code: two layers of features, two of head.

    238,800 parameters at 28x28x1 for 10 classes. McMahan et al.'s 2NN is 784-200-200-10, with biases.
    """
    stages: OrderedDict[str, nn.Module] = OrderedDict(
        fc1=bias_free(math.prod(input.shape), 200),
        fc2=bias_free(200, 200),
        fc3=bias_free(200, 200),
        fc4=nn.Linear(200, classes, bias=False),
    )
    return xavier(Net(stages, input, split or "fc3"))


def bias_free(inputs: int, outputs: int) -> nn.Sequential:
    """Return a stage: flatten (no effect on vectors), linear without bias, ReLU."""
    linear = nn.Linear(inputs, outputs, bias=False)
    return nn.Sequential(OrderedDict(flatten=nn.Flatten(), linear=linear, relu=nn.ReLU(inplace=True)))


def xavier(net: Net) -> Net:
    """Draw every weight from N(0, 2 / (fan-in + fan-out)) and return the net; normalization stays at 1 and 0."""
    for weight in net.parameters():
        if weight.dim() > 1:
            nn.init.xavier_normal_(weight)
    return net


TWONN = NetEntry(
    name="twonn",
    summary="four linear layers without biases, for vectors, signals and images",
    paper="SuPerFed, Hahn et al., KDD 2022",
    accepts=("image", "signal", "vector"),
    example=Input("image", (1, 28, 28)),
    build=build_twonn,
)

ENTRIES = (LOGISTIC, MLP, TWONN)
