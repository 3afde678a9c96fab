"""The IDX files of MNIST and its successors: a magic number, the sizes, the bytes; each file may be gzipped."""

import gzip
import struct
import zlib
from collections.abc import Sequence
from math import prod
from pathlib import Path

import numpy as np
import numpy.typing as npt

from motet.data.readers.raw import RawData
from motet.errors import MotetError
from motet.io.user_paths import regular_size

MOST_BYTES = 10**9  # unpacked; Fashion-MNIST has 47 million

FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
"""As MNIST's makers named them."""
GZIPPED = tuple(f"{name}.gz" for name in FILES)


def read_idx(path: Path, dimensions: int) -> npt.NDArray[np.uint8]:
    """The unsigned bytes of an IDX file with that many dimensions."""
    try:
        regular_size(path, str(path))
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise MotetError(f"{path}: cannot be read ({error}); accepted: a complete .gz file") from error
    return parse_idx(data, dimensions, str(path))


def parse_idx(data: bytes, dimensions: int, where: str) -> npt.NDArray[np.uint8]:
    """The unsigned bytes of the content of an IDX file; `where` names it in errors."""
    header = 4 + 4 * dimensions
    magic = 0x0800 + dimensions
    found = int.from_bytes(data[:4], "big")
    if len(data) < header or found != magic:
        raise MotetError(
            f"{where}: not an IDX file of {dimensions} dimensions (magic {found:#x}); accepted: {magic:#x}"
        )
    shape = struct.unpack_from(f">{dimensions}I", data, 4)
    expected = header + prod(shape)
    if len(data) != expected:
        raise MotetError(f"{where}: holds {len(data)} bytes for shape {shape}; accepted: {expected} bytes")
    return np.frombuffer(data, np.uint8, offset=header).reshape(shape)


def read_four(paths: Sequence[Path], class_names: tuple[str, ...] = ()) -> RawData:
    """Training images, training labels, test images and test labels of 10 classes, from four IDX files."""
    images, labels = [], []
    for at, part in ((0, "train"), (2, "t10k")):
        x, y = read_idx(paths[at], 3), read_idx(paths[at + 1], 1)
        check_pairs(x, y, 10, str(paths[at].parent), part)
        images.append(x)
        labels.append(y)
    if images[0].shape[1:] != images[1].shape[1:]:
        raise MotetError(
            f"{paths[2]}: images of {images[1].shape[1:]} pixels; accepted: {images[0].shape[1:]} as in training"
        )
    return RawData(
        x=np.concatenate(images)[..., None],
        y=np.concatenate(labels).astype(np.int64),
        kind="image",
        classes=10,
        top=255,
        net="cnn4",
        split=np.repeat([0, 1], [len(labels[0]), len(labels[1])]),
        class_names=class_names,
    )


def check_pairs(x: npt.NDArray[np.uint8], y: npt.NDArray[np.integer], classes: int, where: str, part: str) -> None:
    """Raise a `MotetError` unless there are as many images as labels, and labels are classes."""
    if len(x) != len(y):
        raise MotetError(f"{where}: {len(x)} images but {len(y)} labels in {part}; accepted: as many")
    if not len(y):
        raise MotetError(f"{where}: no images in {part}; accepted: at least one")
    if y.max() >= classes:
        raise MotetError(f"{where}: label {y.max()} in {part}; accepted: labels from 0 to {classes - 1}")
