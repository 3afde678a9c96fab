"""The files of CIFAR-10 and CIFAR-100: the binary version and the Python version, in a folder or as downloaded."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from motet.data.archives import read_members
from motet.data.plain_pickle import NotPlain, plain_values
from motet.data.raw import Array, RawData
from motet.errors import MotetError
from motet.inspect_files import shown_path

PIXELS = 3 * 32 * 32
MOST_BYTES = 400_000_000  # of one file; CIFAR-100's training file has 154 million

Batch = tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]
"""Rows of pixels, colour after colour, and labels."""


def read_binary(container: Path, files: Sequence[str], labels_before: int, label: int) -> list[Batch]:
    """Batches of the binary version: rows of so many labels, of which one counts, and the pixels."""
    width = labels_before + PIXELS
    batches = []
    for name, data in zip(files, read_members(container, files, MOST_BYTES), strict=True):
        if not data or len(data) % width:
            raise MotetError(
                f"{shown_path(container)}: {name} holds {len(data)} bytes; accepted: rows of {width} bytes"
            )
        rows = np.frombuffer(data, np.uint8).reshape(-1, width)
        batches.append((rows[:, labels_before:], rows[:, label]))
    return batches


def read_python(container: Path, files: Sequence[str], key: str) -> list[Batch]:
    """Batches of the Python version, whose labels stand under that key; nothing is unpickled."""
    batches = []
    for name, data in zip(files, read_members(container, files, MOST_BYTES), strict=True):
        where = f"{shown_path(container)}: {name}"
        try:
            values = plain_values(data)
        except NotPlain as error:
            raise MotetError(
                f"{where} is no batch of CIFAR ({error}), and what else a pickle may hold is never run; accepted: the "
                f"official file, or the binary version"
            ) from None
        batches.append(_batch(values, key, where))
    return batches


def arranged(training: Sequence[Batch], test: Sequence[Batch], class_names: tuple[str, ...], where: Path) -> RawData:
    """Batches as data: images [n, 32, 32, 3] in the official order."""
    batches = [*training, *test]
    y = np.concatenate([labels for _, labels in batches]).astype(np.int64)
    if y.max() >= len(class_names):
        raise MotetError(f"{shown_path(where)}: label {y.max()}; accepted: labels from 0 to {len(class_names) - 1}")
    x = np.empty((len(y), 32, 32, 3), np.uint8)
    start = 0
    for rows, _ in batches:
        x[start : start + len(rows)] = rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        start += len(rows)
    counts = [sum(len(labels) for _, labels in part) for part in (training, test)]
    return RawData(
        x=x,
        y=y,
        kind="image",
        classes=len(class_names),
        top=255,
        net="cnn4",
        split=np.repeat([0, 1], counts),
        class_names=class_names,
    )


def _batch(values: dict[str, Any], key: str, where: str) -> Batch:
    pixels: Array | None = values.get("data")
    labels = values.get(key)
    if not isinstance(pixels, np.ndarray) or pixels.ndim != 2 or pixels.shape[1] != PIXELS:
        raise MotetError(f"{where}: holds no rows of {PIXELS} pixels under 'data'; accepted: a batch of CIFAR")
    plain = isinstance(labels, list) and all(type(label) is int and 0 <= label < 256 for label in labels)
    if not plain or len(labels) != len(pixels) or not len(pixels):  # type: ignore[arg-type]
        raise MotetError(f"{where}: holds no label for each of {len(pixels)} images under {key!r}; accepted: as many")
    return pixels, np.array(labels, np.uint8)
