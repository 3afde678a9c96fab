"""The blocks that a section of the page is made of; the template draws each kind."""

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
    """One figure in large type, with its meaning and what to compare it with."""

    label: str
    value: str
    beside: str = ""


@dataclass(frozen=True)
class Cards:
    """A row of cards with the most important figures."""

    kind: ClassVar[str] = "cards"
    cards: Sequence[Card]


@dataclass(frozen=True)
class Cell:
    """A cell of a table: its text, and the value that sorts its column."""

    text: str
    key: float | str | None = None
    strong: bool = False


@dataclass(frozen=True)
class Sheet:
    """A table that a reader can sort; the first cell of a row is its name."""

    kind: ClassVar[str] = "sheet"
    caption: str
    titles: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    series: Sequence[int] = ()  # the series whose colour is shown before each row's name
    groups: Sequence[str] = ()  # the group of each column, written once above neighbours of the same group
    closed: bool = False

    def is_number(self, column: int) -> bool:
        """Return whether a column holds numbers."""
        return any(isinstance(row[column].key, int | float) for row in self.rows)

    @property
    def spans(self) -> list[tuple[str, int]]:
        """Return the groups, each with its number of columns."""
        return [(name, len(list(same))) for name, same in groupby(self.groups)]


@dataclass(frozen=True)
class Words:
    """A paragraph of sentences."""

    kind: ClassVar[str] = "words"
    sentences: Sequence[str]
    strong: bool = False


@dataclass(frozen=True)
class Code:
    """Text to copy, such as a command or a file."""

    kind: ClassVar[str] = "code"
    title: str
    text: str
    closed: bool = True


Block = Charts | Cards | Sheet | Words | Code


@dataclass(frozen=True)
class PageSection:
    """A section: a heading, one sentence that says what to see, and its blocks."""

    name: str
    title: str
    see: str
    blocks: Sequence[Block] = field(default=())
    closed: bool = False  # the reader opens it by a click: for who studies methods rather than uses a model

    @property
    def charts(self) -> list[Chart]:
        """Return all charts of the section, for print."""
        return [chart for block in self.blocks if isinstance(block, Charts) for chart in block.charts]
