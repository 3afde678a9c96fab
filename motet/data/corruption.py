"""What is done to the data of malicious clients."""

import torch

from motet.data.federation import ClientData
from motet.rng import numpy_generator


def poison_labels(client: ClientData, classes: int, seed: int) -> None:
    """Every training label anew, uniform over all classes; of two classes, the other one. Test labels stay right."""
    y = client.train.y
    if classes == 2:
        y.copy_(1 - y)
    else:
        y.copy_(torch.from_numpy(numpy_generator(seed, "poison", 0, client.id).integers(classes, size=len(y))))
