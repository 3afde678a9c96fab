"""FedBN (Li et al. 2021): normalization stays with its client, all else is averaged."""

from typing import ClassVar

from torch.nn import GroupNorm, LayerNorm
from torch.nn.modules.batchnorm import _BatchNorm

from motet.errors import MotetError
from motet.methods.base import MethodEntry, Part
from motet.methods.base.part import Acts
from motet.nets import Net


class FedBN(Part):
    """The scales, shifts and statistics of normalization layers never travel.

    For nets that normalize over batches. A new client starts from the initial ones and adapts them.
    """

    acts: ClassVar[Acts] = "sharing"
    role: ClassVar[str | None] = "way to divide the net"

    def private(self, net: Net) -> tuple[str, ...]:
        """Return the names of all normalization layers."""
        kinds = (_BatchNorm, GroupNorm, LayerNorm)
        found = tuple(f"{name}." for name, module in net.named_modules() if isinstance(module, kinds))
        if not found:
            raise MotetError(
                "method fedbn keeps normalization layers, and this net has none; accepted: a net with some"
            )
        return found


ENTRY = MethodEntry(
    "fedbn",
    "each client's own normalization in a shared net",
    "Li et al. 2021",
    part=FedBN,
    stays="normalization layers",
)
