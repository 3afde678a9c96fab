"""fasttext: the mean of a text's words, and two linear layers."""

from collections import OrderedDict

from pydantic import Field
from torch import Tensor, nn

from motet.data.input import Input
from motet.nets.info import NetInfo
from motet.nets.net import Net
from motet.settings import Section


class Options(Section):
    """Options of `fasttext(...)`."""

    embedding: int = Field(32, ge=1, le=10_000, description="numbers that stand for a word, and hidden units")
    padding: int = Field(0, ge=-1, description="the token that fills up short texts and counts for nothing; -1 = none")


class MeanOfWords(nn.Module):
    """The mean of the vectors of all words but padding; 0 for a text without words."""

    def __init__(self, vocabulary: int, size: int, padding: int):
        super().__init__()
        self.padding = padding
        self.embedding = nn.Embedding(vocabulary, size)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, words) becomes (batch, size)."""
        vectors: Tensor = self.embedding(x)
        words = (x != self.padding).unsqueeze(2).to(vectors.dtype)
        return (vectors * words).sum(1) / words.sum(1).clamp_min(1)


def build(input: Input, classes: int, split: str | None, embedding: int, padding: int) -> Net:
    """Joulin et al. (EACL 2017) as DBE (NeurIPS 2023) has it: 32 numbers per word, 32 hidden units without ReLU."""
    stages: OrderedDict[str, nn.Module] = OrderedDict(
        words=MeanOfWords(input.vocabulary, embedding, padding),
        fc1=nn.Linear(embedding, embedding),
        fc2=nn.Linear(embedding, classes),
    )
    return Net(stages, input, split)


ENTRY = NetInfo(
    name="fasttext",
    summary="the mean of a text's words and two linear layers",
    paper="Joulin et al., EACL 2017; DBE, NeurIPS 2023",
    accepts=("tokens",),
    example=Input("tokens", (200,), 10_000),
    build=build,
    options=Options,
)
