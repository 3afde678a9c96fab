"""How a method introduces itself: the one line in its own file that gives it a name."""

from dataclasses import dataclass

from motet.config.section import Section
from motet.methods.base.method import Method
from motet.methods.base.part import Part
from motet.methods.base.wrapped import Wrapped


@dataclass(frozen=True)
class MethodEntry:
    """One name. A part joins others in a sum; a whole method stands alone, or carries what it names; a wrapper follows
    any method and personalizes what that serves."""

    name: str
    summary: str
    paper: str
    part: type[Part] | None = None
    whole: type[Method] | None = None
    wraps: type[Wrapped] | None = None
    base: bool = False  # what parts are added to where a sum names no whole method: FedAvg
    stays: str = ""  # what each client keeps for itself, beside its data and its last trained model
    down: str = "1"  # models that a client is sent in a round
    up: str = "1"  # models that it sends back

    @property
    def kind(self) -> str:
        """What the name is in a sum."""
        return "part" if self.part or self.base else "whole method" if self.whole else "personalization"

    @property
    def thing(self) -> type[Part] | type[Method]:
        """The class behind the name."""
        found = self.part or self.whole or self.wraps
        assert found is not None
        return found

    @property
    def options(self) -> type[Section]:
        """The options it takes in brackets."""
        return self.part or (self.whole or self.wraps or Method).Options
