"""Local training: no communication, each client on its own."""

from typing import ClassVar

from motet.methods.part import Part
from motet.nets import Net


class Local(Part):
    """Every weight is private, so nothing travels and there is no generic model."""

    needs_sharing: ClassVar[bool] = False

    def private(self, net: Net) -> tuple[str, ...]:
        """All of them."""
        return ("*",)
