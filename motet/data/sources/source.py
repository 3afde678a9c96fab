"""What a data set says of itself."""

from collections.abc import Callable
from dataclasses import dataclass

from motet.data.raw import RawData


@dataclass(frozen=True)
class Source:
    """A data set with a name. `load` takes whether it may download."""

    name: str
    summary: str
    paper: str
    licence: str
    net: str
    """The network a newcomer should get."""
    load: Callable[[bool], RawData]
