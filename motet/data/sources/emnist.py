"""emnist: handwritten digits and letters, with their writers from the official .mat files, without from IDX."""

import gzip
import io
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from motet.config.data_section import DataSettings
from motet.data.readers.archives import read_file, read_members
from motet.data.readers.idx import check_pairs, parse_idx
from motet.data.readers.raw import Array, Integers, RawData
from motet.data.sources.source import Download, Form, Source
from motet.errors import MotetError
from motet.io.user_paths import shown_path

_DIGITS, _UPPER, _LOWER = "0123456789", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz"
CLASSES = {
    "digits": _DIGITS,
    "letters": _UPPER,
    "balanced": _DIGITS + _UPPER + "abdefghnqrt",
    "byclass": _DIGITS + _UPPER + _LOWER,
    "bymerge": _DIGITS + _UPPER + "abdefghnqrt",
    "mnist": _DIGITS,
}
"""What the labels of each version stand for; letters alone count from 1."""
SIDE = 28
MOST_BYTES = 2 * 10**9


def mat_folder(paths: Sequence[Path], settings: DataSettings) -> RawData:
    """Read emnist-VERSION.mat in a folder."""
    variant = EMNIST.variant(settings)
    path = paths[0] / f"emnist-{variant}.mat"
    if not path.is_file():
        raise MotetError(f"{path}: no such file; accepted: another data.variant, or this file of matlab.zip")
    return _of_mat(read_file(path, MOST_BYTES), variant, shown_path(path))


def mat_zip(paths: Sequence[Path], settings: DataSettings) -> RawData:
    """Read the same file inside matlab.zip as it is distributed."""
    variant = EMNIST.variant(settings)
    name = f"matlab/emnist-{variant}.mat"
    return _of_mat(read_members(paths[0], [name], MOST_BYTES)[0], variant, f"{shown_path(paths[0])}: {name}")


def idx_folder(paths: Sequence[Path], settings: DataSettings) -> RawData:
    """emnist-VERSION-train-images-idx3-ubyte.gz and three more in a folder; they do not say who wrote what."""
    variant = EMNIST.variant(settings)
    files = [paths[0] / f"{name}.gz" for name in _idx_names(variant)]
    files = [path if path.is_file() else path.with_suffix("") for path in files]
    missing = next((path for path in files if not path.is_file()), None)
    if missing is not None:
        raise MotetError(f"{missing}.gz: no such file; accepted: another data.variant, or this file of gzip.zip")
    return _of_idx([read_file(path) for path in files], variant, shown_path(paths[0]))


def idx_zip(paths: Sequence[Path], settings: DataSettings) -> RawData:
    """Read the IDX files inside gzip.zip as it is distributed."""
    variant = EMNIST.variant(settings)
    packed = read_members(paths[0], [f"gzip/{name}.gz" for name in _idx_names(variant)])
    try:
        contents = [gzip.decompress(data) for data in packed]
    except (OSError, EOFError, zlib.error) as error:
        raise MotetError(f"{shown_path(paths[0])}: cannot be read ({error}); accepted: the official gzip.zip") from None
    return _of_idx(contents, variant, shown_path(paths[0]))


def _idx_names(variant: str) -> list[str]:
    return [
        f"emnist-{variant}-{part}-{kind}-ubyte" for part in ("train", "test") for kind in ("images-idx3", "labels-idx1")
    ]


def _of_idx(contents: Sequence[bytes], variant: str, where: str) -> RawData:
    parts = []
    for at in (0, 2):
        x = parse_idx(contents[at], 3, f"{where}, images of {variant}")
        y = parse_idx(contents[at + 1], 1, f"{where}, labels of {variant}")
        parts.append((x, y, None))
    return _raw(parts, variant, where)


def _of_mat(content: bytes, variant: str, where: str) -> RawData:
    """MATLAB's form of version 5: dataset.train and .test with images [n, 784], labels [n, 1] and writers [n, 1]."""
    from scipy.io import loadmat  # type: ignore[import-untyped]

    try:
        dataset = loadmat(io.BytesIO(content), variable_names=["dataset"])["dataset"][0, 0]
        parts = []
        for part in ("train", "test"):
            fields = dataset[part][0, 0]
            writers = fields["writers"] if "writers" in fields.dtype.names else None
            parts.append((_images(fields["images"]), _column(fields["labels"]), _column(writers)))
    except MemoryError:
        raise
    except Exception as error:  # whatever SciPy has for a file that somebody else wrote
        raise MotetError(
            f"{where} cannot be read as EMNIST's .mat ({type(error).__name__}); accepted: the official file"
        ) from None
    return _raw(parts, variant, where)


def _images(values: Any) -> Array:
    if values.dtype != np.uint8 or values.ndim != 2 or values.shape[1] != SIDE * SIDE:
        raise ValueError("images")
    images: Array = values.reshape(-1, SIDE, SIDE)
    return images


def _column(values: Any) -> Array | None:
    if values is None:
        return None
    if values.ndim != 2 or values.shape[1] != 1 or not np.all(values == np.rint(values)):
        raise ValueError("a column")
    column: Array = values[:, 0].astype(np.int64)
    return column


def _raw(parts: Sequence[tuple[Array, Array | None, Array | None]], variant: str, where: str) -> RawData:
    """Images upright: the files hold them column by column."""
    names = tuple(CLASSES[variant])
    first = 1 if variant == "letters" else 0
    images, labels, writers = [], [], list[Integers]()
    for part, (x, y, wrote) in zip(("train", "test"), parts, strict=True):
        assert y is not None
        y = y.astype(np.int64) - first
        check_pairs(x, y, len(names), where, part)
        if y.min() < 0 or x.shape[1:] != (SIDE, SIDE) or (wrote is not None and len(wrote) != len(y)):
            raise MotetError(f"{where}: images, labels or writers of {part} do not fit; accepted: the official file")
        images.append(x.transpose(0, 2, 1))
        labels.append(y)
        if wrote is not None:
            writers.append(wrote)
    return RawData(
        x=np.ascontiguousarray(np.concatenate(images))[..., None],
        y=np.concatenate(labels),
        kind="image",
        classes=len(names),
        top=255,
        net="cnn4",
        split=np.repeat([0, 1], [len(y) for y in labels]),
        client=np.concatenate(writers) if len(writers) == 2 else None,
        class_names=names,
        notes=()
        if len(writers) == 2
        else ("IDX files do not say who wrote what: --partition natural needs matlab.zip",),
    )


EMNIST = Source(
    name="emnist",
    summary="EMNIST: 240,000 + 40,000 handwritten digits by their writers, 28x28 grey pixels (variants: letters, "
    "balanced, byclass, bymerge, mnist)",
    paper="Cohen, Afshar, Tapson and van Schaik, EMNIST: Extending MNIST to handwritten letters, IJCNN 2017",
    licence="NIST Special Database 19: public domain",
    net="cnn4",
    obeys=("variant",),
    forms=(
        Form(("matlab.zip",), mat_zip, own_folder=True, clients=True),
        Form(("emnist-matlab.zip",), mat_zip, clients=True),
        Form(("matlab",), mat_folder, own_folder=True, clients=True),
        Form(("gzip.zip",), idx_zip, own_folder=True),
        Form(("emnist-gzip.zip",), idx_zip),
        Form(("gzip",), idx_folder, own_folder=True),
    ),
    folders=("EMNIST", "EMNIST/raw"),
    variants=tuple(CLASSES),
    downloads=(
        Download(
            "https://biometrics.nist.gov/cs_links/EMNIST/matlab.zip",
            "e1fa805cdeae699a52da0b77c2db17f6feb77eed125f9b45c022e7990444df95",
        ),
    ),
)

ENTRIES = (EMNIST,)
