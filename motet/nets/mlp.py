"""mlp: hidden layers for vectors and small images."""

import math
from collections import OrderedDict
from itertools import pairwise

from pydantic import Field, field_validator
from torch import nn

from motet.data.input import Input
from motet.nets.blocks import dense_stage
from motet.nets.info import NetInfo
from motet.nets.net import Net
from motet.settings import Section

WIDEST, DEEPEST = 100_000, 20


class Options(Section):
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


def build(input: Input, classes: int, split: str | None, hidden: int | str) -> Net:
    """Hidden layers with ReLU; at first 128 and 64 units, the shape of McMahan et al.'s 2NN (AISTATS 2017), smaller."""
    sizes = [math.prod(input.shape), *map(int, str(hidden).split("x"))]
    stages: OrderedDict[str, nn.Module] = OrderedDict(
        (f"fc{i}", dense_stage(*widths)) for i, widths in enumerate(pairwise(sizes), 1)
    )
    stages[f"fc{len(sizes)}"] = nn.Linear(sizes[-1], classes)
    return Net(stages, input, split)


ENTRY = NetInfo(
    name="mlp",
    summary="hidden layers, at first of 128 and 64 units, for vectors, signals and small images",
    paper="after McMahan et al., AISTATS 2017",
    accepts=("image", "signal", "vector"),
    example=Input("image", (1, 8, 8)),
    build=build,
    options=Options,
)
