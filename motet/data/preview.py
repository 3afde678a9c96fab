"""What the head of a data set says before all of it is read: enough to choose a net and a way of dealing."""

from dataclasses import dataclass

from motet.data.input import Kind

NATURAL, DRAWN = "natural", "dirichlet:0.3"
"""How data are dealt that say whose each row is, and others, where nobody said how."""
AUTO = "auto"


@dataclass(frozen=True)
class Preview:
    """Of what the samples are, and whether they say whose they are."""

    kind: Kind
    sides: tuple[int, ...] = ()
    """Height and width of images, where they are known."""
    clients: bool = False


def dealt_by(partition: str, clients: bool) -> str:
    """The partition that is meant."""
    return partition if partition != AUTO else NATURAL if clients else DRAWN
