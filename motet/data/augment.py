"""What varies images from epoch to epoch, in training batches alone; whole batches at a time, in stored layout."""

from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
from torch import Tensor

PAD = 4
"""Pixels of black on every side that a crop may reach into (He et al., CVPR 2016, section 4.2)."""

AugmentName = Literal["none", "flip-crop"]
Augment = Callable[[Tensor, torch.Generator], Tensor]
"""From stored images [n, H, W, C] and randomness of its own to other images of the same shape and type."""


def flip_crop(images: Tensor, rng: torch.Generator, pad: int = PAD) -> Tensor:
    """Each image mirrored or not, and moved by up to `pad` pixels each way; one draw per image decides all three."""
    n, height, width, channels = images.shape
    padded = images.new_zeros(n, height + 2 * pad, width + 2 * pad, channels)
    padded[:, pad : pad + height, pad : pad + width] = images
    places = 2 * pad + 1
    draw = torch.randint(2 * places * places, (n, 1), generator=rng)
    mirrored, down, right = draw % 2 == 1, draw // 2 % places, draw // 2 // places
    rows = down + torch.arange(height)
    columns = right + torch.arange(width)
    columns = torch.where(mirrored, columns.flip(1), columns)
    return padded[torch.arange(n)[:, None, None], rows[:, :, None], columns[:, None, :]]


def augment_of(name: AugmentName, pad: int = PAD) -> Augment | None:
    """What a word of `data.augment` does; it can be pickled."""
    return None if name == "none" else partial(flip_crop, pad=pad)
