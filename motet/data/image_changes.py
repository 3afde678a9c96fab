"""Changes of images: the random ones of training batches, and those that are made once to all stored images.

Both take whole arrays in the stored layout [n, H, W, C] and keep their type.
"""

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from motet.config.data_section import LEAST_AREA, PAD, AugmentName
from motet.data.readers.raw import Array

Augment = Callable[[Tensor, torch.Generator], Tensor]
"""From stored images [n, H, W, C] and randomness of its own to other images of the same shape and type."""


def flip_crop(images: Tensor, rng: torch.Generator, pad: int = PAD) -> Tensor:
    """Mirror each image or not, and move it by up to `pad` pixels each way; one draw per image decides all three."""
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


ASPECTS = (3 / 4, 4 / 3)  # width to height of a crop, relative to the image's


def random_resized_crop(images: Tensor, rng: torch.Generator, least: float = LEAST_AREA) -> Tensor:
    """Stretch a random part of each image to the whole, mirrored or not (Szegedy et al. 2015).

    Its area is uniform from `least` to all of the image, its aspect uniform in its logarithm from 3/4 to 4/3, its place
    uniform; a side that would be longer than the image's is as long. Five draws per image decide all.
    """
    area, aspect, down, right, mirror = torch.rand(len(images), 5, generator=rng).T
    area = least + (1 - least) * area
    low, high = map(math.log, ASPECTS)
    ratio = torch.exp(low + (high - low) * aspect).sqrt()
    width, height = (area.sqrt() * ratio).clamp_max(1), (area.sqrt() / ratio).clamp_max(1)
    theta = torch.zeros(len(images), 2, 3)  # from places of the result to places of the image, both from −1 to 1
    theta[:, 0, 0], theta[:, 1, 1] = torch.where(mirror < 0.5, -width, width), height
    theta[:, 0, 2], theta[:, 1, 2] = (2 * right - 1) * (1 - width), (2 * down - 1) * (1 - height)
    x = images.permute(0, 3, 1, 2).to(torch.float32)
    grid = functional.affine_grid(theta, list(x.shape), align_corners=False)
    cropped = functional.grid_sample(x, grid, padding_mode="border", align_corners=False).permute(0, 2, 3, 1)
    cropped = cropped if images.is_floating_point() else cropped.round().clamp(0, 255)
    return cropped.to(images.dtype).contiguous()


def augment_of(name: AugmentName, pad: int = PAD, least: float = LEAST_AREA) -> Augment | None:
    """Return the function that a word of `data.augment` stands for; it can be pickled."""
    if name == "random-resized-crop":
        return partial(random_resized_crop, least=least)
    return None if name == "none" else partial(flip_crop, pad=pad)


# -------- What is done once to whole arrays of stored images [n, H, W, C]


_CHUNK = 500


def resized(images: Array, side: int) -> Array:
    """Square images of this side; shrinking averages over what a pixel covers."""

    def act(x: Tensor) -> Tensor:
        return functional.interpolate(x, (side, side), mode="bilinear", antialias=True, align_corners=False)

    return _in_floats(images, act)


def rotated(images: Array, degrees: float) -> Array:
    """Counter-clockwise in the same frame, black where nothing was; quarters of square images lose nothing."""
    quarters, rest = divmod(degrees, 90)
    if not rest and (not quarters % 2 or images.shape[1] == images.shape[2]):
        return np.ascontiguousarray(np.rot90(images, int(quarters), axes=(1, 2)))
    height, width = images.shape[1:3]
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    back = torch.tensor([[cos, -sin * height / width, 0.0], [sin * width / height, cos, 0.0]])

    def act(x: Tensor) -> Tensor:
        grid = functional.affine_grid(back.expand(len(x), 2, 3), list(x.shape), align_corners=False)
        return functional.grid_sample(x, grid, align_corners=False)

    return _in_floats(images, act)


def blurred(images: Array, sigma: float) -> Array:
    """A Gaussian of this deviation in pixels, over three of them each way; the border is mirrored or repeated."""
    reach = math.ceil(3 * sigma)
    weights = torch.exp(-0.5 * (torch.arange(-reach, reach + 1) / sigma) ** 2)
    weights = (weights / weights.sum()).reshape(1, 1, 1, -1)

    def act(x: Tensor) -> Tensor:
        flat = x.reshape(-1, 1, *x.shape[2:])
        flat = functional.conv2d(functional.pad(flat, (reach, reach, 0, 0), mode="replicate"), weights)
        flat = functional.conv2d(functional.pad(flat, (0, 0, reach, reach), mode="replicate"), weights.transpose(2, 3))
        return flat.reshape(x.shape)

    return _in_floats(images, act)


def _in_floats(images: Array, act: Callable[[Tensor], Tensor]) -> Array:
    """A few hundred images at a time as floats [n, C, H, W], and back into their type."""
    done: Array | None = None
    whole = np.issubdtype(images.dtype, np.integer)
    for at in range(0, len(images), _CHUNK):
        x = torch.from_numpy(np.ascontiguousarray(images[at : at + _CHUNK])).to(torch.float32).permute(0, 3, 1, 2)
        with torch.no_grad():
            y = act(x).permute(0, 2, 3, 1).numpy()
        if done is None:
            done = np.empty((len(images), *y.shape[1:]), images.dtype)
        done[at : at + len(y)] = np.clip(np.rint(y), 0, 255) if whole else y
    return images if done is None else done
