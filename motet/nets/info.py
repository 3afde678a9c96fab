"""What a network says of itself: its name, where it comes from, which input it takes, how it is built."""

from collections.abc import Callable
from dataclasses import dataclass

from motet.data.input import Input, Kind
from motet.errors import MotetError
from motet.nets.net import Net

Build = Callable[[Input, int, str | None], Net]
"""From the input, the number of classes and the first stage of the head (None: the net's own)."""


@dataclass(frozen=True)
class NetInfo:
    """The entry of one network. `build` draws initial weights from torch's global generator."""

    name: str
    summary: str
    paper: str
    accepts: tuple[Kind, ...]
    example: Input
    """An input that the net is known to take, to look at it without data."""
    build: Build

    def build_for(self, input: Input, classes: int, split: str | None) -> Net:
        """The net, or a sentence about an input of another kind."""
        if input.kind not in self.accepts:
            raise wrong_input(self.name, input, ", ".join(self.accepts))
        return self.build(input, classes, split)


def wrong_input(net: str, input: Input, accepted: str) -> MotetError:
    """The error for an input that does not fit a net."""
    return MotetError(f"net {net!r} cannot take {input}; accepted: {accepted}")
