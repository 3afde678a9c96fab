"""Samples that a user brings to a model, and their labels if they have any: read as the model's preparation takes them.

A kind of file is one entry of `READERS`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from motet.data import Prepare
from motet.data.npz import names_in, read_array
from motet.data.raw import Array, Integers
from motet.errors import MotetError, shown
from motet.inspect_files import regular_size, shown_path
from motet.room import refuse_if_too_large


@dataclass(frozen=True)
class Given:
    """What a file holds: samples as it has them, labels as class numbers or names."""

    x: Array
    y: Array | None


def read_given(path: Path, prepare: Prepare) -> Given:
    """The samples of a file, or one sentence about what it is."""
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise MotetError(f"{shown_path(path)} is of no kind that is read; accepted: {', '.join(READERS)}")
    try:
        regular_size(path, shown_path(path))
    except OSError as error:
        raise MotetError(f"cannot read {shown_path(path)}: {error.strerror}; accepted: a file") from error
    given = reader(path, prepare)
    if not len(given.x):
        raise MotetError(f"{shown_path(path)} holds no samples; accepted: at least one")
    return given


def class_numbers(y: Array, class_names: Sequence[str], where: str) -> Integers:
    """Labels as the model counts its classes: from names, or from numbers that are such already."""
    if y.dtype.kind == "U":
        known = {name: number for number, name in enumerate(class_names)}
        wrong = next((label for label in y.tolist() if label not in known), None)
        if wrong is not None:
            some = ", ".join(repr(name) for name in class_names[:5])
            raise MotetError(f"{where} holds label {shown(wrong)}; accepted: a class of the run, such as {some}")
        return np.array([known[label] for label in y.tolist()], dtype=np.int64)
    if y.dtype.kind not in "iu" or y.ndim != 1:
        raise MotetError(
            f"{where} holds labels of type {y.dtype} and shape {y.shape}; accepted: one number or name each"
        )
    outside = y[(y < 0) | (y >= len(class_names))]
    if len(outside):
        raise MotetError(f"{where} holds label {outside[0]}; accepted: 0 to {len(class_names) - 1}")
    return y.astype(np.int64)


def _npz(path: Path, prepare: Prepare) -> Given:
    names = names_in(path)
    if "x" not in names:
        raise MotetError(f"{path}: field 'x' is missing; accepted: x, and y where labels are known")
    x, y = read_array(path, "x"), read_array(path, "y") if "y" in names else None
    if not x.ndim or (y is not None and y.shape != (len(x),)):
        raise MotetError(f"{path}: fields x and y have shapes {x.shape} and {shown(y is not None and y.shape)}")
    return Given(x, y)


def _npy(path: Path, prepare: Prepare) -> Given:
    refuse_if_too_large(2 * path.stat().st_size, f"{path}", "an array that fits twice")
    try:
        x = np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError, MemoryError) as error:
        reason = shown((str(error).splitlines() or [""])[0])
        raise MotetError(f"{path}: cannot be read as .npy ({reason}); accepted: an array of numbers") from error
    if not isinstance(x, np.ndarray) or not x.ndim:
        raise MotetError(f"{path}: holds no samples; accepted: an array [n, …]")
    return Given(x, None)


READERS: dict[str, Callable[[Path, Prepare], Given]] = {".npz": _npz, ".npy": _npy}
