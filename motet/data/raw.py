"""A data set before it is dealt: stored arrays, and the rules for their shapes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from motet.data.input import Kind
from motet.errors import MotetError

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]

CHANNELS_LAST = (1, 3, 4)
CHANNELS_FIRST = (1, 3)
SHAPES = "images [n, H, W] (uint8) or [n, H, W, C] with C 1, 3 or 4, signals [n, C, T] (float) or vectors [n, F]"


@dataclass(frozen=True)
class RawData:
    """Samples in their stored layout: images [n, H, W, C], signals [n, C, T], vectors [n, F]."""

    x: Array
    y: Integers
    kind: Kind
    classes: int
    top: float
    """The value that the `unit` scale maps to 1."""
    net: str
    """The network a newcomer should get."""
    split: Integers | None = None
    """0 for the official training set, 1 for the official test set."""
    client: Integers | None = None
    domain: Integers | None = None


def stored_layout(x: Array, where: str) -> tuple[Array, Kind]:
    """Bring any accepted array into the stored layout; `where` names its origin in the error."""
    if x.dtype not in (np.uint8, np.float16, np.float32, np.float64):
        raise MotetError(f"{where}: field 'x' has dtype {x.dtype}; accepted: uint8, float16, float32, float64")
    if x.ndim not in (2, 3, 4) or 0 in x.shape[1:]:
        raise MotetError(f"{where}: field 'x' has shape {x.shape}; accepted: {SHAPES}")
    if x.dtype == np.float64:
        with np.errstate(over="ignore"):  # what overflows is refused below as not finite
            x = x.astype(np.float32)
    if x.dtype != np.uint8 and not np.isfinite(x).all():
        raise MotetError(f"{where}: field 'x' holds NaN or infinite values; accepted: finite numbers")
    if x.ndim == 2:
        return x, "vector"
    if x.ndim == 3:
        return (x[..., None], "image") if x.dtype == np.uint8 else (x, "signal")
    if x.shape[3] in CHANNELS_LAST:
        return x, "image"
    if x.shape[1] in CHANNELS_FIRST:
        return x.transpose(0, 2, 3, 1), "image"
    raise MotetError(f"{where}: field 'x' has shape {x.shape}; accepted: {SHAPES}")


def default_net_for(kind: Kind) -> str:
    """The network for data nobody registered."""
    return "cnn4" if kind == "image" else "mlp"
