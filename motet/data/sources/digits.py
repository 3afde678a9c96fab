"""Small digits: `digits` of scikit-learn, `digits-domains` made of them, and `digits4`, four domains in one file."""

from dataclasses import replace

import numpy as np

from motet.data.domains import simulate
from motet.data.partitions.registry import deal
from motet.data.readers.raw import RawData
from motet.data.sources.source import Source, npz_form


def load_plain(download: bool) -> RawData:
    """Return all 1,797 digits of scikit-learn; there is nothing to download."""
    from sklearn.datasets import load_digits  # here, for it is slow to import

    digits = load_digits()
    return RawData(
        x=digits.images.astype(np.uint8)[..., None],
        y=digits.target.astype(np.int64),
        kind="image",
        classes=10,
        top=16,
        net=DIGITS.net,
    )


DIGITS = Source(
    name="digits",
    summary="1,797 handwritten digits of 8x8 pixels in 10 classes, embedded in scikit-learn",
    paper="Alpaydin and Kaynak, Optical Recognition of Handwritten Digits, UCI 1998",
    licence="CC BY 4.0",
    net="mlp",
    load=load_plain,
    samples=1797,
)


# -------- digits4: four domains of digits in one .npz


DIGITS4 = Source(
    name="digits4",
    summary="four domains of digits (MNIST, MNIST-M, SVHN, USPS), 32x32 colour pixels, 10 classes",
    paper="Ganin and Lempitsky, Unsupervised Domain Adaptation by Backpropagation, ICML 2015 (MNIST-M); Netzer et al., "
    "Reading Digits in Natural Images, 2011 (SVHN); Hull, A Database for Handwritten Text Recognition, 1994 (USPS)",
    licence="research use; of each of the four its own",
    net="cnn4",
    forms=(npz_form("digits4.npz", "image", 10),),
    where="your own: x uint8 [n, 32, 32, 3], y, domain, domain_names",
)


# -------- digits-domains


DOMAINS = "plain,rotate:90,invert,permute"
"""In the last one every class has the name of another: what is right there is wrong in the others."""
CLIENTS = 10
"""Of each domain; they differ in their classes."""


def load_domains(download: bool) -> RawData:
    """The 1,797 digits, a quarter of each class in each domain, in the hands of 40 clients; always the same ones."""
    raw = simulate(load_plain(download), DOMAINS, seed=0)
    rows_per_client = deal("dirichlet:0.3@domain", raw.y, CLIENTS * len(raw.domain_names), 0, domain=raw.domain)
    client = np.empty(len(raw.y), np.int64)
    for number, rows in enumerate(rows_per_client):
        client[rows] = number
    names = tuple(f"{domain} {number + 1}" for domain in raw.domain_names for number in range(CLIENTS))
    return replace(raw, client=client, client_names=names)


DIGITS_DOMAINS = Source(
    name="digits-domains",
    summary="digits in four domains (as they are, on their side, inverted, under permuted labels), 10 natural clients "
    "each",
    paper="Alpaydin and Kaynak, Optical Recognition of Handwritten Digits, UCI 1998",
    licence="CC BY 4.0",
    net="mlp",
    load=load_domains,
)

ENTRIES = (DIGITS, DIGITS4, DIGITS_DOMAINS)
