"""What is done to labels: those of malicious clients, and noise in everybody's."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from motet.data.federation import ClientData, Samples
from motet.errors import MotetError, shown
from motet.training.randomness import numpy_generator


@dataclass(frozen=True)
class Noise:
    """Which wrong label a sample gets, and how often."""

    kind: Literal["pair", "symmetric"] = "pair"
    rate: float = 0.0


def poison_labels(client: ClientData, classes: int, seed: int) -> None:
    """Draw every training label anew, uniformly (of two classes, take the other one); test labels stay right."""
    y = client.train.y
    if classes == 2:
        y.copy_(1 - y)
    else:
        y.copy_(torch.from_numpy(numpy_generator(seed, "poison", 0, client.id).integers(classes, size=len(y))))


def noise_of(text: str, swapped: bool = False) -> Noise:
    """The type and rate that `pair:0.4` or `symmetric:0.2` names; a rate of 0 for no text."""
    if not text:
        return Noise()
    kind, _, rate = text.partition(":")
    try:
        value = float(rate)
    except ValueError:
        value = math.nan
    if kind not in ("pair", "symmetric") or not 0 < value <= 1:
        raise MotetError(
            f"data.label_noise is {shown(text)}; accepted: pair:RATE or symmetric:RATE with a rate above 0, up to 1"
        )
    return Noise("pair" if (kind == "pair") != swapped else "symmetric", value)


def add_label_noise(client: ClientData, noise: Noise, classes: int, seed: int, on_test: bool) -> None:
    """Wrong labels in the client's training data; `on_test`: in all that is its own, as if before its split."""
    rng = numpy_generator(seed, "label-noise", 0, client.id)
    for samples in (client.train, client.val, client.test) if on_test else (client.train,):
        _mislabel(samples, noise, classes, rng)


def _mislabel(samples: Samples, noise: Noise, classes: int, rng: np.random.Generator) -> None:
    """At that rate the next class (pair), or one of the others, all alike (symmetric)."""
    wrong = rng.random(len(samples)) < noise.rate
    step = np.ones(len(samples), np.int64) if noise.kind == "pair" else rng.integers(1, classes, len(samples))
    samples.y.copy_((samples.y + torch.from_numpy(np.where(wrong, step, 0))) % classes)
