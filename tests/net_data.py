"""Small files of every kind of sample, for runs of nets that need more than 8x8 pixels."""

from pathlib import Path
from typing import Any

import numpy as np

CLASSES, SAMPLES, VOCABULARY = 3, 90, 20
SIDES = {
    **dict.fromkeys(("cnn4", "fedrod-conv", "fedrod-dropout", "fedrep-conv", "vgg9"), 16),
    **{"fedrod-conv-small": 18, "vgg11": 32},
}
TEXT = ("stacked-lstm", "fasttext")


def data_for(net: str, folder: Path) -> dict[str, Any]:
    """A federation of four clients with samples that the net takes, of classes that can be told apart."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, CLASSES, SAMPLES)
    fields: dict[str, Any] = {"y": y}
    if net in TEXT:
        fields |= {"x": rng.integers(4, VOCABULARY, (SAMPLES, 9)), "kind": "tokens", "vocabulary": VOCABULARY}
        fields["x"][:, -3:] = y[:, None] + 1
    elif net == "har-cnn":
        fields["x"] = (rng.normal(size=(SAMPLES, 3, 30)) + y[:, None, None]).astype(np.float32)
    else:
        side = SIDES.get(net, 8)
        fields["x"] = rng.integers(0, 100, (SAMPLES, side, side, 1)).astype(np.uint8)
        fields["x"][np.arange(SAMPLES), y * 2] += 150
    path = folder / "samples.npz"
    np.savez(path, **fields)
    return {"name": str(path), "partition": "iid", "clients": 4, "new_clients": 0.25, "subset": 1.0}
