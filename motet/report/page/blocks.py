"""What a section of the page is made of; the template has a place for each kind."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import ClassVar

from motet.report.charts import Chart


@dataclass(frozen=True)
class Charts:
    """One large chart, or small ones side by side."""

    kind: ClassVar[str] = "charts"
    charts: Sequence[Chart]


@dataclass(frozen=True)
class Card:
    """One figure in large type, what it is, and what to compare it with."""

    label: str
    value: str
    beside: str = ""


@dataclass(frozen=True)
class Cards:
    """The most important figures."""

    kind: ClassVar[str] = "cards"
    cards: Sequence[Card]


@dataclass(frozen=True)
class Cell:
    """A text, and by what a column is sorted."""

    text: str
    key: float | str | None = None
    strong: bool = False


@dataclass(frozen=True)
class Sheet:
    """A table that a reader may sort; the first cells are the names of rows."""

    kind: ClassVar[str] = "sheet"
    caption: str
    titles: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    series: Sequence[int] = ()  # whose colour stands before each row's name
    groups: Sequence[str] = ()  # what stands above each title; the same word once over its neighbours
    closed: bool = False

    def is_number(self, column: int) -> bool:
        """Whether a column holds numbers."""
        return any(isinstance(row[column].key, int | float) for row in self.rows)

    @property
    def spans(self) -> list[tuple[str, int]]:
        """The groups, each with how many columns it is above."""
        return [(name, len(list(same))) for name, same in groupby(self.groups)]


@dataclass(frozen=True)
class Words:
    """Sentences."""

    kind: ClassVar[str] = "words"
    sentences: Sequence[str]
    strong: bool = False


@dataclass(frozen=True)
class Code:
    """Something to copy."""

    kind: ClassVar[str] = "code"
    title: str
    text: str
    closed: bool = True


Block = Charts | Cards | Sheet | Words | Code


@dataclass(frozen=True)
class PageSection:
    """A heading, one sentence that says what to see, and what is to be seen."""

    name: str
    title: str
    see: str
    blocks: Sequence[Block] = field(default=())

    @property
    def charts(self) -> list[Chart]:
        """All its charts, for print."""
        return [chart for block in self.blocks if isinstance(block, Charts) for chart in block.charts]
