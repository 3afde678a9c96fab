"""From stored samples to network input: conversion and normalisation, the same for training and for users."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from motet.data.input import Input, Kind
from motet.data.raw import Array, Integers
from motet.errors import MotetError

Normalize = Literal["standard", "half", "unit", "none"]

_ALL_BUT_CHANNELS: dict[Kind, tuple[int, ...]] = {"image": (0, 1, 2), "signal": (0, 2), "vector": (0,)}
_CHUNK = 1000


@dataclass(frozen=True, eq=False)
class Prepare:
    """x * scale + shift as float32; images leave as NCHW in channels-last memory. Can be pickled."""

    kind: Kind
    sample_shape: tuple[int, ...]
    """Of one stored sample: (H, W, C), (C, T) or (F,)."""
    scale: Tensor | None
    """Of the sample's full shape: one value per channel would be broadcast in slow inner loops of C steps."""
    shift: Tensor | None

    @classmethod
    def fit(cls, normalize: Normalize, kind: Kind, x: Array, rows: Integers, top: float) -> "Prepare":
        """The preparation for stored samples x; `standard` takes its constants from the given rows."""
        shape = x.shape[1:]
        if normalize == "none":
            return cls(kind, shape, None, None)
        if normalize == "standard":
            mean, deviation = _moments(kind, x, rows)
        else:
            low, width = (0.5, 0.5) if normalize == "half" else (0.0, 1.0)
            mean, deviation = np.array(low * top), np.array(width * top)
        scale = np.broadcast_to(1 / deviation, shape).astype(np.float32)
        shift = np.broadcast_to(-mean / deviation, shape).astype(np.float32)
        return cls(kind, shape, torch.from_numpy(scale), torch.from_numpy(shift))

    @property
    def input(self) -> Input:
        """What a net is given."""
        return Input(self.kind, self.input_shape)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Of one network input: (C, H, W), (C, T) or (F,)."""
        return (self.sample_shape[2], *self.sample_shape[:2]) if self.kind == "image" else self.sample_shape

    def __call__(self, stored: Tensor) -> Tensor:
        """Network input for a batch in stored layout, which is left as it was."""
        x = stored.to(torch.float32)
        if self.scale is not None and self.shift is not None:
            target = torch.empty_like(x) if x is stored else x
            x = torch.addcmul(self.shift, x, self.scale, out=target)
        return x.permute(0, 3, 1, 2) if self.kind == "image" else x

    def raw(self, x: npt.ArrayLike | Tensor) -> Tensor:
        """Network input for samples as a user has them, in any shape the data file could have had."""
        given = x if isinstance(x, Tensor) else torch.from_numpy(np.array(x))
        shape = tuple(given.shape[1:])
        if self.kind == "image" and shape != self.sample_shape:
            if self.sample_shape[2] == 1 and shape == self.sample_shape[:2]:
                given = given.unsqueeze(-1)
            elif shape == self.input_shape:
                given = given.permute(0, 2, 3, 1).contiguous()
        if tuple(given.shape[1:]) != self.sample_shape:
            accepted = ", ".join(str(n) for n in self.sample_shape)
            raise MotetError(f"input x has shape {('n', *shape)}; accepted: [n, {accepted}]".replace("'", ""))
        return self(given)


def _moments(kind: Kind, x: Array, rows: Integers) -> tuple[Array, Array]:
    """Mean and standard deviation per channel (per feature of vectors), in chunks to spare memory."""
    axes = _ALL_BUT_CHANNELS[kind]
    chunks = range(0, len(rows), _CHUNK)
    per_channel = len(rows) * np.prod([x.shape[axis] for axis in axes[1:]])

    def total(power: int, center: Array | float) -> Array:
        parts = (x[rows[at : at + _CHUNK]].astype(np.float64) - center for at in chunks)
        sums: Array = np.sum([(part**power).sum(axis=axes, keepdims=True)[0] for part in parts], axis=0)
        return sums

    mean = total(1, 0.0) / per_channel
    deviation = np.sqrt(total(2, mean) / per_channel)
    return mean, np.where(deviation > 0, deviation, 1.0)
