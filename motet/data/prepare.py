"""From stored samples to network input, one class per kind of sample: the same for training and for users."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field, PositiveInt, model_validator
from torch import Tensor

from motet.config.data_section import SampleKind
from motet.data.image_changes import Augment
from motet.data.input import Input
from motet.data.readers.raw import MOST_FEATURES, MOST_TOKENS, Array, Integers, RawData
from motet.data.schema import NumberTarget
from motet.errors import MotetError
from motet.io.json_models import FileModel, to_json

Normalize = Literal["standard", "half", "unit", "constants", "none"]
Constants = tuple[tuple[float, ...], tuple[float, ...]]
"""Means and deviations of values in [0, 1], one for all channels or one each."""

_CHUNK = 1000


@dataclass(frozen=True, eq=False)
class Prepare:
    """The way of one kind of sample. Can be pickled."""

    kind: ClassVar[SampleKind]

    sample_shape: tuple[int, ...]
    """Of one stored sample: (H, W, C), (C, T), (F,) or (T,) tokens."""

    augment: Augment | None = field(default=None, kw_only=True)
    """What varies stored samples in training batches."""

    is_slow: ClassVar[bool] = False
    """Whether to prepare a sample takes long for its size, so that prepared ones are kept within a limit of memory."""

    @property
    def input(self) -> Input:
        """Return the kind and shape of what a net is given."""
        return Input(self.kind, self.sample_shape)

    def __call__(self, stored: Tensor) -> Tensor:
        """Network input for a batch in stored layout, which is left as it was."""
        raise NotImplementedError

    @property
    def hash_extras(self) -> list[object]:
        """Return what belongs to the identity of the data though no stored sample says it."""
        return []

    def saved(self) -> tuple[dict[str, object], dict[str, Tensor]]:
        """Return what makes the same preparation again: plain values, and the constants of a normalization."""
        words = {"kind": self.kind, "shape": list(self.sample_shape), "vocabulary": self.input.vocabulary}
        return {**words, "constants": False}, {}

    def raw(self, x: npt.ArrayLike | Tensor) -> Tensor:
        """Network input for samples as a user has them, in any shape the data file could have had."""
        return self(self.stored(x))

    def stored(self, x: npt.ArrayLike | Tensor) -> Tensor:
        """A user's samples in stored layout; an error for what no net can take."""
        given = x if isinstance(x, Tensor) else _tensor(x)
        stored = self._arranged(given)
        if tuple(stored.shape[1:]) != self.sample_shape or not stored.dim():
            shape = ", ".join(["n", *(str(side) for side in given.shape[1:])]) if given.dim() else ""
            accepted = ", ".join(str(side) for side in self.sample_shape)
            raise MotetError(f"input x has shape ({shape}); accepted: [n, {accepted}]")
        return self._checked(stored)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return sentences that a user should know of what was fitted."""
        return ()

    @property
    def target(self) -> NumberTarget | None:
        """Return how the label is scaled where it is a number; None for classes."""
        return None

    def labels(self, y: Tensor) -> Tensor:
        """Return labels as a net learns them: numbers of mean 0 and deviation 1, or the numbers of classes."""
        return y

    def as_given(self, stored: Tensor) -> Tensor:
        """Stored samples as `stored` takes an array of them."""
        return stored

    def _arranged(self, given: Tensor) -> Tensor:
        """The other orders of axes that a user may have."""
        return given

    def _checked(self, stored: Tensor) -> Tensor:
        """Return the samples, or raise a `MotetError` for values that are none of this kind."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class NumbersPrepare(Prepare):
    """Preparation of numbers: x * scale + shift as float32."""

    summed_axes: ClassVar[tuple[int, ...]]
    """Over which `standard` takes mean and deviation: all but channels or features."""

    scale: Tensor | None = None
    """Of the sample's full shape: one value per channel would be broadcast in slow inner loops of C steps."""
    shift: Tensor | None = None

    def __call__(self, stored: Tensor) -> Tensor:
        """Return samples as normalized float32."""
        x = stored.to(torch.float32)
        if self.scale is not None and self.shift is not None:
            target = torch.empty_like(x) if x is stored else x
            x = torch.addcmul(self.shift, x, self.scale, out=target)
        return x

    def saved(self) -> tuple[dict[str, object], dict[str, Tensor]]:
        """Return all that makes this preparation again, its constants included, as JSON can hold it."""
        words, _ = super().saved()
        if self.scale is None or self.shift is None:
            return words, {}
        return {**words, "constants": True}, {"scale": self.scale, "shift": self.shift}

    def _checked(self, stored: Tensor) -> Tensor:
        if stored.dtype == torch.uint8:
            return stored
        if stored.is_complex():
            raise MotetError(f"input x has dtype {stored.dtype}; accepted: real numbers")
        numbers = stored.to(torch.float32)
        if not torch.isfinite(numbers).all():
            raise MotetError("input x holds NaN or infinite values; accepted: finite numbers")
        if not stored.is_floating_point() and len(numbers) and numbers.abs().max() > LARGEST_WHOLE:
            raise MotetError(
                f"input x holds {numbers.abs().max():g} in whole numbers; accepted: at most {LARGEST_WHOLE:g}"
            )
        return numbers


@dataclass(frozen=True, eq=False)
class ImagePrepare(NumbersPrepare):
    """Stored [n, H, W, C]; they leave as NCHW in channels-last memory."""

    kind: ClassVar[SampleKind] = "image"
    summed_axes: ClassVar[tuple[int, ...]] = (0, 1, 2)

    @property
    def input(self) -> Input:
        """Return the input (C, H, W)."""
        return Input(self.kind, (self.sample_shape[2], *self.sample_shape[:2]))

    def __call__(self, stored: Tensor) -> Tensor:
        """Return normalized images as a view with channels first."""
        return super().__call__(stored).permute(0, 3, 1, 2)

    def _arranged(self, given: Tensor) -> Tensor:
        shape = tuple(given.shape[1:])
        if shape == self.sample_shape:
            return given
        if self.sample_shape[2] == 1 and shape == self.sample_shape[:2]:
            return given.unsqueeze(-1)
        return given.permute(0, 2, 3, 1).contiguous() if shape == self.input.shape else given


@dataclass(frozen=True, eq=False)
class SignalPrepare(NumbersPrepare):
    """Preparation of signals, which are stored as [n, C, T]."""

    kind: ClassVar[SampleKind] = "signal"
    summed_axes: ClassVar[tuple[int, ...]] = (0, 2)


@dataclass(frozen=True, eq=False)
class VectorPrepare(NumbersPrepare):
    """Preparation of vectors, which are stored as [n, F]."""

    kind: ClassVar[SampleKind] = "vector"
    summed_axes: ClassVar[tuple[int, ...]] = (0,)


@dataclass(frozen=True, eq=False)
class TokensPrepare(Prepare):
    """Stored [n, T] in few bytes; they leave as int64 and are never normalized."""

    kind: ClassVar[SampleKind] = "tokens"

    vocabulary: int

    @property
    def input(self) -> Input:
        """Return the input with the size of its vocabulary."""
        return Input(self.kind, self.sample_shape, self.vocabulary)

    @property
    def hash_extras(self) -> list[object]:
        """Return what the hash of the data must know of these: without it the bytes could be a vector's."""
        return [self.vocabulary]

    def __call__(self, stored: Tensor) -> Tensor:
        """Return the tokens as they are."""
        return stored.to(torch.int64)

    def _checked(self, stored: Tensor) -> Tensor:
        if stored.is_floating_point() or stored.is_complex() or stored.dtype == torch.bool:
            raise MotetError(f"input x has dtype {stored.dtype}; accepted: whole numbers, which tokens are")
        tokens = stored.to(torch.int64)
        wrong = tokens[(tokens < 0) | (tokens >= self.vocabulary)]
        if len(wrong):
            raise MotetError(f"input x holds token {int(wrong[0])}; accepted: 0 to {self.vocabulary - 1}")
        return tokens


_OF_NUMBERS: dict[SampleKind, type[NumbersPrepare]] = {
    "image": ImagePrepare,
    "signal": SignalPrepare,
    "vector": VectorPrepare,
}


def fit_prepare(
    raw: RawData,
    normalize: Normalize,
    rows: Integers,
    augment: Augment | None = None,
    constants: Constants = ((), ()),
) -> Prepare:
    """The preparation for these data; `standard` takes its constants from the given rows."""
    shape = raw.x.shape[1:]
    if raw.kind != "image" and augment is not None:
        raise MotetError(f"data.augment is for images, and these data are of kind {raw.kind!r}; accepted: none")
    if raw.fit is not None:
        return raw.fit(raw.x, normalize, rows)
    if raw.kind == "tokens":
        return TokensPrepare(shape, raw.vocabulary)
    of_kind = _OF_NUMBERS[raw.kind]
    scale, shift = _scale_and_shift(of_kind, normalize, raw.x, rows, raw.top, constants)
    return of_kind(shape, scale, shift, augment=augment)


MOST_NUMBERS = 2**24  # of one sample
LARGEST_WHOLE = 1e15
"""Of whole numbers that are samples: beyond it they are ids, or overflowed."""


class SavedPrepare(FileModel):
    """What `Prepare.saved` says of samples that are numbers or tokens."""

    kind: SampleKind
    shape: Annotated[tuple[PositiveInt, ...], Field(min_length=1, max_length=3)]
    vocabulary: Annotated[int, Field(ge=0, le=MOST_TOKENS)]
    constants: bool

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        sides = {"image": 3, "signal": 2}.get(self.kind, 1)
        most = MOST_FEATURES if sides == 1 else MOST_NUMBERS
        if len(self.shape) != sides or math.prod(self.shape) > most:
            raise ValueError(f"the shape of one sample: {sides} sides, at most {most} values")
        if (self.vocabulary > 0) != (self.kind == "tokens"):
            raise ValueError("a vocabulary for tokens alone")
        return self


def restored(words: Mapping[str, object], constants: Mapping[str, object]) -> Prepare:
    """Return the preparation that `saved` describes, without augmentation; raise `ValueError` for anything else."""
    if words["kind"] == "table":
        from motet.data.prepare_table import restored_table

        return restored_table(words)
    if words["kind"] == "text":
        from motet.data.prepare_text import restored_text

        return restored_text(words)
    saved = SavedPrepare.model_validate_json(to_json(words))
    if saved.kind == "tokens":
        return TokensPrepare(saved.shape, saved.vocabulary)
    scale, shift = (constants.get(name) if saved.constants else None for name in ("scale", "shift"))
    for each in (scale, shift) if saved.constants else ():
        if not isinstance(each, Tensor) or each.dtype != torch.float32 or tuple(each.shape) != saved.shape:
            raise ValueError("constants")
    return _OF_NUMBERS[saved.kind](saved.shape, scale, shift)  # type: ignore[arg-type]


def _tensor(x: npt.ArrayLike) -> Tensor:
    try:
        return torch.from_numpy(np.array(x))
    except (TypeError, ValueError) as error:  # rows of several lengths, text, objects
        raise MotetError(f"input x is no array of numbers ({str(error).splitlines()[0]})") from None


def _scale_and_shift(
    of_kind: type[NumbersPrepare], normalize: Normalize, x: Array, rows: Integers, top: float, constants: Constants
) -> tuple[Tensor | None, Tensor | None]:
    if normalize == "none" or (normalize == "half" and of_kind is SignalPrepare):  # a signal has no range to halve
        return None, None
    if normalize == "standard":
        of_bytes = x.dtype == np.uint8 and of_kind is ImagePrepare
        mean, deviation = _moments_of_bytes(x, rows) if of_bytes else _moments(of_kind.summed_axes, x, rows)
    elif normalize == "constants":
        mean, deviation = (
            _per_channel(of_kind.summed_axes, x, name, values, top)
            for name, values in zip(("mean", "std"), constants, strict=True)
        )
    else:
        low, width = (0.5, 0.5) if normalize == "half" else (0.0, 1.0)
        mean, deviation = np.array(low * top), np.array(width * top)
    scale = np.broadcast_to(1 / deviation, x.shape[1:]).astype(np.float32)
    shift = np.broadcast_to(-mean / deviation, x.shape[1:]).astype(np.float32)
    return torch.from_numpy(scale), torch.from_numpy(shift)


def _moments_of_bytes(x: Array, rows: Integers) -> tuple[Array, Array]:
    """Return mean and deviation of images of bytes, from how often each of 256 values occurs: a tenth of the time."""
    channels = x.shape[-1]
    counts = np.zeros((channels, 256), np.int64)
    step = max(1, 200_000 // max(1, x[0].size))  # counting takes eight bytes for each
    for at in range(0, len(rows), step):
        chunk = x[rows[at : at + step]].reshape(-1, channels)
        for channel in range(channels):
            counts[channel] += np.bincount(chunk[:, channel], minlength=256)
    values, per_channel = np.arange(256), counts.sum(axis=1)
    mean = (counts @ values) / per_channel
    deviation = np.sqrt((counts * (values - mean[:, None]) ** 2).sum(axis=1) / per_channel)
    return mean, np.where(deviation > 0, deviation, 1.0)


def _per_channel(axes: tuple[int, ...], x: Array, name: str, values: tuple[float, ...], top: float) -> Array:
    """Given constants in the shape of a sample's channels, in stored values."""
    sides = [1 if axis in axes else side for axis, side in enumerate(x.shape)][1:]
    channels = math.prod(sides)
    if len(values) not in (1, channels) or (name == "std" and min(values) <= 0):
        accepted = f"{channels} numbers, or one for all" if channels > 1 else "one number"
        raise MotetError(
            f"data.normalize_{name} is {list(values)}; accepted: {accepted}{', above 0' * (name == 'std')}"
        )
    return np.broadcast_to(np.array(values) * top, channels).reshape(sides)


def _moments(axes: tuple[int, ...], x: Array, rows: Integers) -> tuple[Array, Array]:
    """Mean and standard deviation per channel (per feature of vectors), in chunks to spare memory."""
    chunks = range(0, len(rows), _CHUNK)
    per_channel = len(rows) * np.prod([x.shape[axis] for axis in axes[1:]])

    def total(power: int, center: Array | float) -> Array:
        parts = (x[rows[at : at + _CHUNK]].astype(np.float64) - center for at in chunks)
        sums: Array = np.sum([(part**power).sum(axis=axes, keepdims=True)[0] for part in parts], axis=0)
        return sums

    mean = total(1, 0.0) / per_channel
    deviation = np.sqrt(total(2, mean) / per_channel)
    return mean, np.where(deviation > 0, deviation, 1.0)
