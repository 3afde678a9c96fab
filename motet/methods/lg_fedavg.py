"""LG-FedAvg (Liang et al. 2020): all clients share the head, and each has a body of its own."""

from typing import ClassVar

from motet.methods.base import MethodEntry, Part
from motet.methods.base.part import Acts
from motet.nets import Net


class LGFedAvg(Part):
    """Local representations under a global head: the head is averaged, the body stays; both learn together."""

    acts: ClassVar[Acts] = "sharing"
    role: ClassVar[str | None] = "way to divide the net"

    def private(self, net: Net) -> tuple[str, ...]:
        """Return the names of all stages before the split."""
        return net.body_names()


ENTRY = MethodEntry(
    "lg-fedavg",
    "each client's own body under a shared head",
    "Liang et al. 2020",
    part=LGFedAvg,
    stays="the body",
    down="head",
    up="head",
)
