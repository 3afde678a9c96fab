"""Local training: no communication, each client trains alone."""

from typing import ClassVar

from motet.methods.base import MethodEntry, Part
from motet.methods.base.part import Acts
from motet.nets import Net


class Local(Part):
    """Every weight is private, so nothing travels and there is no generic model."""

    acts: ClassVar[Acts] = "sharing"
    shares: ClassVar[bool] = False
    needs_sharing: ClassVar[bool] = False

    def private(self, net: Net) -> tuple[str, ...]:
        """Return a pattern that matches all parameters."""
        return ("*",)


ENTRY = MethodEntry(
    "local", "no communication, each client alone", "baseline", part=Local, stays="every weight", down="0", up="0"
)
