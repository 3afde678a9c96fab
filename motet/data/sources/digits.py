"""digits: small handwritten digits that scikit-learn brings along."""

import numpy as np

from motet.data.raw import RawData
from motet.data.sources.source import Source


def load(download: bool) -> RawData:
    """All 1,797; there is nothing to download."""
    from sklearn.datasets import load_digits  # here, for it is slow to import

    digits = load_digits()
    return RawData(
        x=digits.images.astype(np.uint8)[..., None],
        y=digits.target.astype(np.int64),
        kind="image",
        classes=10,
        top=16,
        net=ENTRY.net,
    )


ENTRY = Source(
    name="digits",
    summary="1,797 handwritten digits of 8x8 pixels in 10 classes, embedded in scikit-learn",
    paper="Alpaydin and Kaynak, Optical Recognition of Handwritten Digits, UCI 1998",
    licence="CC BY 4.0",
    net="mlp",
    load=load,
    samples=1797,
)
