"""What every chart has: a name, one sentence that says what to see, a drawing, and the same in a table."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

WIDE, NARROW = 860, 340  # a desk and a phone; a small chart has the narrow drawing alone


@dataclass(frozen=True)
class ChartTable:
    """The numbers of a chart; the first column names the rows."""

    titles: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Key:
    """A line of the legend: the series, its name, and its sample: line, mark, area, pale or hollow."""

    series: int | str
    label: str
    sample: str = "line"


class Drawing(Protocol):
    """A chart without its words."""

    def svg(self, width: int, page: bool, title: str, alt: str) -> str:
        """The drawing, so wide; for the page or for print, where the legend is part of it."""

    def legend_keys(self) -> list[Key]:
        """The legend; nothing where marks are labelled."""

    def table(self) -> ChartTable:
        """The same in numbers."""

    def is_empty(self) -> bool:
        """Whether there is nothing to draw."""


@dataclass(frozen=True)
class Chart:
    """A drawing and its words. `name` is that of its file."""

    name: str
    title: str
    see: str
    drawing: Drawing
    small: bool = False
    closed: bool = False  # on the page it is opened by a click
    notes: Sequence[str] = field(default=())
