"""Simulated domains for data that have none: groups of samples that look different, or are called otherwise.

Domains are written with commas between them, what is done in one with pluses: `plain,rotate:90,invert+blur:1`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from motet.config.data_section import KINDS, SampleKind
from motet.data.image_changes import blurred, rotated
from motet.data.partitions.request import rows_by_value
from motet.data.readers.raw import Array, Integers, RawData
from motet.errors import MotetError, shown
from motet.training.randomness import numpy_generator

MOST_DOMAINS = 1000


@dataclass(frozen=True)
class Change:
    """One word: what it does to the samples and labels of a domain, and the number behind it."""

    name: str
    act: Callable[[Array, Integers, "Given"], tuple[Array, Integers]]
    argument: str = ""
    default: float | None = None
    """Of the number; None: it must be written."""
    least: float = 0.0
    most: float = 0.0
    kinds: tuple[SampleKind, ...] = ("image",)

    @property
    def accepted(self) -> str:
        """Return how this change is written in `data.domains`, for errors and lists."""
        if not self.argument:
            return self.name
        optional = "" if self.default is None else f" (or {self.name} for {self.default:g})"
        return f"{self.name}:{self.argument} from {self.least:g} to {self.most:g}{optional}"


@dataclass(frozen=True)
class Given:
    """What a change may need besides the samples: its number, the largest value, the classes, randomness."""

    number: float
    top: float
    classes: int
    rng: np.random.Generator


def _noise(x: Array, y: Integers, given: Given) -> tuple[Array, Integers]:
    noisy = x + given.rng.normal(0, given.number * given.top, x.shape).astype(np.float32)
    whole = np.issubdtype(x.dtype, np.integer)
    return (np.clip(np.rint(noisy), 0, given.top) if whole else noisy).astype(x.dtype), y


def _invert(x: Array, y: Integers, given: Given) -> tuple[Array, Integers]:
    return (given.top - x.astype(np.float32)).astype(x.dtype), y


def _permute(x: Array, y: Integers, given: Given) -> tuple[Array, Integers]:
    return x, given.rng.permutation(given.classes)[y]


CHANGES = {
    change.name: change
    for change in (
        Change("plain", lambda x, y, _: (x, y), kinds=KINDS),
        Change("rotate", lambda x, y, given: (rotated(x, given.number), y), "DEGREES", least=-360, most=360),
        Change("invert", _invert),
        Change("blur", lambda x, y, given: (blurred(x, given.number), y), "SIGMA", 1.0, least=0.1, most=20),
        Change("noise", _noise, "DEVIATION", 0.2, least=0, most=10, kinds=("image", "signal", "vector")),
        Change("permute", _permute, kinds=KINDS),
    )
}
"""`noise` counts in the range of the values (255 of bytes); `permute` gives every class the name of another."""

Domain = tuple[tuple[Change, float], ...]


def parse_domains(text: str) -> dict[str, Domain]:
    """Return each domain by its name, which is how it was written; a number where that name is taken."""
    domains: dict[str, Domain] = {}
    for written in text.split(","):
        words = written.strip()
        again = sum(name.split(" ")[0] == words for name in domains)
        domains[f"{words} ({again + 1})" if again else words] = tuple(_change(word) for word in words.split("+"))
    if len(domains) < 2 or len(domains) > MOST_DOMAINS:
        raise MotetError(f"data.domains is {shown(text)}; accepted: 2 to {MOST_DOMAINS} domains, such as plain,invert")
    return domains


def simulate(raw: RawData, text: str, seed: int) -> RawData:
    """The data in these domains: of each class an equal share in each, or, of natural clients, whole clients."""
    domains = parse_domains(text)
    if raw.domain is not None:
        raise MotetError("data.domains is for data that have no domains, and these have; accepted: leave it out")
    for domain in domains.values():
        for change, _ in domain:
            if raw.kind not in change.kinds:
                fitting = ", ".join(c.accepted for c in CHANGES.values() if raw.kind in c.kinds)
                raise MotetError(
                    f"data.domains has {change.name!r}, but these data are of kind {raw.kind!r}; accepted: {fitting}"
                )
    column = _assigned(raw, len(domains), numpy_generator(seed, "domains"))
    x, y = raw.x.copy(), raw.y.copy()
    for number, domain in enumerate(domains.values()):
        rows = np.flatnonzero(column == number)
        rng = numpy_generator(seed, "domain", number)
        some_x, some_y = x[rows], y[rows]
        for change, value in domain:
            some_x, some_y = change.act(some_x, some_y, Given(value, raw.top, raw.classes, rng))
        x[rows], y[rows] = some_x, some_y
    return replace(raw, x=x, y=y, domain=column, domain_names=tuple(domains))


def _assigned(raw: RawData, domains: int, rng: np.random.Generator) -> Integers:
    """Return the number of the domain that each row belongs to."""
    if raw.client is not None:
        clients, number = np.unique(raw.client, return_inverse=True)
        return rng.permutation(len(clients))[number] % domains
    split = np.zeros(len(raw.y), np.int64) if raw.split is None else raw.split
    column = np.empty(len(raw.y), np.int64)
    start = 0
    for rows in rows_by_value(raw.y + raw.classes * split):
        column[rng.permutation(rows)] = (start + np.arange(len(rows))) % domains
        start += len(rows)  # so that remainders do not all fall to the first
    return column


def _change(word: str) -> tuple[Change, float]:
    name, colon, text = word.strip().partition(":")
    change = CHANGES.get(name)
    if change is None:
        accepted = ", ".join(each.accepted for each in CHANGES.values())
        raise MotetError(f"data.domains has {shown(word)}; accepted: {accepted}")
    if not colon and (not change.argument or change.default is not None):
        return change, change.default or 0.0
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not change.argument or not change.least <= number <= change.most:
        raise MotetError(f"data.domains has {shown(word)}; accepted: {change.accepted}")
    return change, number
