"""stacked-lstm: LEAF's network for the next character of Shakespeare."""

from collections import OrderedDict

from pydantic import Field
from torch import Tensor, nn

from motet.data.input import Input
from motet.nets.info import NetInfo
from motet.nets.net import Net
from motet.settings import Section


class Options(Section):
    """Options of `stacked-lstm(...)`."""

    embedding: int = Field(8, ge=1, le=10_000, description="numbers that stand for a character")
    hidden: int = Field(256, ge=1, le=10_000, description="units of each LSTM layer")
    layers: int = Field(2, ge=1, le=20, description="LSTM layers")
    bias: bool = Field(True, description="biases in the LSTM and the last layer; SuPerFed's code has none")


class LastStep(nn.LSTM):
    """What an LSTM knows after the last character."""

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        """The last layer's output at the last step."""
        return super().forward(x)[0][:, -1]


def build(input: Input, classes: int, split: str | None, embedding: int, hidden: int, layers: int, bias: bool) -> Net:
    """Caldas et al. (LEAF 2018): 819,920 parameters for a vocabulary of 80 and as many classes."""
    stages: OrderedDict[str, nn.Module] = OrderedDict(
        embed=nn.Embedding(input.vocabulary, embedding),
        lstm=LastStep(embedding, hidden, layers, bias=bias, batch_first=True),
        fc=nn.Linear(hidden, classes, bias=bias),
    )
    return Net(stages, input, split)


ENTRY = NetInfo(
    name="stacked-lstm",
    summary="two LSTM layers that read characters and tell the next one",
    paper="LEAF, Caldas et al. 2018; SuPerFed, KDD 2022",
    accepts=("tokens",),
    example=Input("tokens", (80,), 80),
    build=build,
    options=Options,
)
