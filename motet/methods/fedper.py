"""FedPer (Arivazhagan et al. 2019): all clients share the body, and each has a head of its own."""

from typing import ClassVar

from motet.methods.base import MethodEntry, Part
from motet.methods.base.part import Acts
from motet.nets import Net


class FedPer(Part):
    """The body is averaged, the head stays with its client; both learn together."""

    acts: ClassVar[Acts] = "sharing"
    role: ClassVar[str | None] = "way to divide the net"

    def private(self, net: Net) -> tuple[str, ...]:
        """Return the names of all stages from the split on."""
        return net.head_names()


ENTRY = MethodEntry(
    "fedper",
    "a shared body under each client's own head",
    "Arivazhagan et al. 2019",
    part=FedPer,
    stays="the head",
    down="body",
    up="body",
)
