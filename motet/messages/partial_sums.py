"""Sums of several replies on their way to the server, in the reply of the first of these clients.

A worker that adds up the replies of several clients sends of each what is not added up, with the id of the first
client whose reply has the same form. The first one's reply has the sums beside it, in fields whose names begin with
`partial.`:

    partial.first            the client that carries the sums
    partial.bytes            the bytes of the whole reply, as the client sent it
    partial.mean.samples.w   Σ (n_i / weight) w_i over these clients
    partial.weight.samples   the weight that the shares of means are relative to
    partial.sum.c            Σ c_i
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from motet.messages.message import Message, byte_count, number

Weighting = Literal["samples", "uniform"]
"""How a mean weights clients: by their numbers of samples, or uniformly."""

PREFIX = "partial."
FIRST, BYTES = f"{PREFIX}first", f"{PREFIX}bytes"
_MEAN, _SUM, _WEIGHT = f"{PREFIX}mean.", f"{PREFIX}sum.", f"{PREFIX}weight."


@dataclass(frozen=True)
class PartialSums:
    """The sums of fields over clients whose replies have the same form."""

    means: Mapping[tuple[str, Weighting], Tensor]
    sums: Mapping[str, Tensor]
    weights: Mapping[Weighting, float]  # what the shares of means are relative to

    def fields(self) -> Message:
        """Return the sums as fields of a reply."""
        found: Message = {f"{_WEIGHT}{weighting}": weight for weighting, weight in self.weights.items()}
        found |= {f"{_MEAN}{weighting}.{name}": total for (name, weighting), total in self.means.items()}
        return found | {f"{_SUM}{name}": total for name, total in self.sums.items()}

    @classmethod
    def of(cls, reply: Message) -> "PartialSums":
        """Return the sums that a reply carries."""
        means, sums = {}, {}
        weightings: tuple[Weighting, ...] = ("samples", "uniform")
        for field, value in reply.items():
            if isinstance(value, Tensor) and field.startswith(_SUM):
                sums[field.removeprefix(_SUM)] = value
            for weighting in weightings:
                start = f"{_MEAN}{weighting}."
                if isinstance(value, Tensor) and field.startswith(start):
                    means[field.removeprefix(start), weighting] = value
        return cls(means, sums, {weighting: number(reply, f"{_WEIGHT}{weighting}") for weighting in weightings})

    def like(self) -> dict[str, Tensor]:
        """Return for every field that was added up a tensor of its form."""
        return {name: total for (name, _), total in self.means.items()} | dict(self.sums)


def own_fields(reply: Message) -> Message:
    """Return the fields of a reply that are the client's own."""
    return {name: value for name, value in reply.items() if not name.startswith(PREFIX)}


def bytes_left_behind(reply: Message | None) -> int:
    """Return how many bytes more a client sent than travel in its reply, some of whose fields were added up."""
    return int(number(reply, BYTES)) - byte_count(reply) if reply and BYTES in reply else 0
