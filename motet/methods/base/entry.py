"""How a method registers: each method's file declares one entry, which gives the method its name."""

from dataclasses import dataclass

from motet.config.section import Section
from motet.methods.base.method import Method
from motet.methods.base.part import Part
from motet.methods.base.wrapped import Wrapped


@dataclass(frozen=True)
class MethodEntry:
    """The name of a method in the catalogue, with the class behind it.

    A part is added to other parts in a sum. A whole method stands alone or takes the parts that it lists. A wrapper
    follows any method and personalizes the model that this method serves.
    """

    name: str
    summary: str
    paper: str
    part: type[Part] | None = None
    whole: type[Method] | None = None
    wraps: type[Wrapped] | None = None
    base: bool = False  # parts are added to this method where a sum names no whole method: FedAvg
    stays: str = ""  # what each client keeps private, beside its data and its last trained model
    down: str = "1"  # number of models that a client receives in a round
    up: str = "1"  # number of models that it sends back

    @property
    def kind(self) -> str:
        """Return what the name is in a sum: "part", "whole method" or "personalization"."""
        return "part" if self.part or self.base else "whole method" if self.whole else "personalization"

    @property
    def thing(self) -> type[Part] | type[Method]:
        """Return the class behind the name."""
        found = self.part or self.whole or self.wraps
        assert found is not None
        return found

    @property
    def options(self) -> type[Section]:
        """Return the options that the name takes in brackets."""
        return self.part or (self.whole or self.wraps or Method).Options
