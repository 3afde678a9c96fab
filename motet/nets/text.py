"""Nets for text: fasttext (the mean of word vectors) and stacked-lstm (LEAF's net for the next character)."""

from collections import OrderedDict

from pydantic import Field
from torch import Tensor, nn

from motet.config.section import Section
from motet.data.input import Input
from motet.nets.net import Net, NetEntry


class FastTextOptions(Section):
    """Options of `fasttext(...)`."""

    embedding: int = Field(32, ge=1, le=10_000, description="numbers that stand for a word, and hidden units")
    padding: int = Field(0, ge=-1, description="the token that fills up short texts and counts for nothing; -1 = none")


class MeanOfWords(nn.Module):
    """A layer that returns the mean of the vectors of all words but padding; 0 for a text without words."""

    def __init__(self, vocabulary: int, size: int, padding: int):
        super().__init__()
        self.padding = padding
        self.embedding = nn.Embedding(vocabulary, size)

    def forward(self, x: Tensor) -> Tensor:
        """Return the mean of the words' vectors: (batch, words) becomes (batch, size)."""
        vectors: Tensor = self.embedding(x)
        words = (x != self.padding).unsqueeze(2).to(vectors.dtype)
        return (vectors * words).sum(1) / words.sum(1).clamp_min(1)


def build_fasttext(input: Input, classes: int, split: str | None, embedding: int, padding: int) -> Net:
    """Build the net of Joulin et al. (EACL 2017) as in DBE (NeurIPS 2023): 32 numbers per word, 32 hidden units, no
    ReLU."""
    stages: OrderedDict[str, nn.Module] = OrderedDict(
        words=MeanOfWords(input.vocabulary, embedding, padding),
        fc1=nn.Linear(embedding, embedding),
        fc2=nn.Linear(embedding, classes),
    )
    return Net(stages, input, split)


FASTTEXT = NetEntry(
    name="fasttext",
    summary="the mean of a text's words and two linear layers",
    paper="Joulin et al., EACL 2017; DBE, NeurIPS 2023",
    accepts=("tokens",),
    example=Input("tokens", (200,), 10_000),
    build=build_fasttext,
    options=FastTextOptions,
)


# -------- stacked-lstm: LEAF's network for the next character of Shakespeare


class StackedLSTMOptions(Section):
    """Options of `stacked-lstm(...)`."""

    embedding: int = Field(8, ge=1, le=10_000, description="numbers that stand for a character")
    hidden: int = Field(256, ge=1, le=10_000, description="units of each LSTM layer")
    layers: int = Field(2, ge=1, le=20, description="LSTM layers")
    bias: bool = Field(True, description="biases in the LSTM and the last layer; SuPerFed's code has none")


class LastStep(nn.LSTM):
    """A layer that keeps only the output of an LSTM after the last character."""

    def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
        """Return the last layer's output at the last step."""
        return super().forward(x)[0][:, -1]


def build_stacked_lstm(
    input: Input, classes: int, split: str | None, embedding: int, hidden: int, layers: int, bias: bool
) -> Net:
    """Build the net of Caldas et al. (LEAF 2018): 819,920 parameters for a vocabulary of 80 and as many classes."""
    stages: OrderedDict[str, nn.Module] = OrderedDict(
        embed=nn.Embedding(input.vocabulary, embedding),
        lstm=LastStep(embedding, hidden, layers, bias=bias, batch_first=True),
        fc=nn.Linear(hidden, classes, bias=bias),
    )
    return Net(stages, input, split)


STACKED_LSTM = NetEntry(
    name="stacked-lstm",
    summary="two LSTM layers that read characters and tell the next one",
    paper="LEAF, Caldas et al. 2018; SuPerFed, KDD 2022",
    accepts=("tokens",),
    example=Input("tokens", (80,), 80),
    build=build_stacked_lstm,
    options=StackedLSTMOptions,
)

ENTRIES = (FASTTEXT, STACKED_LSTM)
