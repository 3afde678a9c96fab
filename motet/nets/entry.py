"""What a network says of itself: its name, where it comes from, which input it takes, how it is built."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from motet.config.data_words import SampleKind
from motet.config.section import Section, checked
from motet.data.input import Input
from motet.errors import MotetError
from motet.nets.net import Net

Build = Callable[..., Net]
"""From the input, the number of classes and the first stage of the head (None: the net's own); and its options, by
their names."""


@dataclass(frozen=True)
class NetEntry:
    """The entry of one network. `build` draws initial weights from torch's global generator."""

    name: str
    summary: str
    paper: str
    accepts: tuple[SampleKind, ...]
    example: Input
    """An input that the net is known to take, to look at it without data."""
    build: Build
    options: type[Section] = Section
    """What may stand in brackets behind its name."""
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    """How names of weights begin in other people's files, and how they begin here."""

    def build_for(self, input: Input, classes: int, split: str | None, **options: object) -> Net:
        """The net, or a sentence about an option, or an input of another kind."""
        if input.kind not in self.accepts:
            raise wrong_input(self.name, input, ", ".join(self.accepts))
        chosen = checked(self.options, options, f"net {self.name}")
        net = self.build(input, classes, split, **{name: getattr(chosen, name) for name in type(chosen).model_fields})
        net.elsewhere = self.elsewhere
        return net


def wrong_input(net: str, input: Input, accepted: str) -> MotetError:
    """The error for an input that does not fit a net."""
    return MotetError(f"net {net!r} cannot take {input}; accepted: {accepted}")
