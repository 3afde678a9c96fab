"""digits-domains: a federation of small digits in four simulated domains, which no one model can serve."""

from dataclasses import replace

import numpy as np

from motet.data.domains import simulate
from motet.data.partitions import deal
from motet.data.raw import RawData
from motet.data.sources import digits
from motet.data.sources.source import Source

DOMAINS = "plain,rotate:90,invert,permute"
"""In the last one every class has the name of another: what is right there is wrong in the others."""
CLIENTS = 10
"""Of each domain; they differ in their classes."""


def load(download: bool) -> RawData:
    """The 1,797 digits, a quarter of each class in each domain, in the hands of 40 clients; always the same ones."""
    raw = simulate(digits.load(download), DOMAINS, seed=0)
    hands = deal("dirichlet:0.3@domain", raw.y, CLIENTS * len(raw.domain_names), 0, domain=raw.domain)
    client = np.empty(len(raw.y), np.int64)
    for number, rows in enumerate(hands):
        client[rows] = number
    names = tuple(f"{domain} {number + 1}" for domain in raw.domain_names for number in range(CLIENTS))
    return replace(raw, client=client, client_names=names)


ENTRY = Source(
    name="digits-domains",
    summary="digits in four domains (as they are, on their side, inverted, under permuted labels), 10 natural clients "
    "each",
    paper="Alpaydin and Kaynak, Optical Recognition of Handwritten Digits, UCI 1998",
    licence="CC BY 4.0",
    net="mlp",
    load=load,
)
