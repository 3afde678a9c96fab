"""organamnist: organs in abdominal CT, from MedMNIST's organamnist.npz."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from motet.config.data_section import DataSettings
from motet.data.readers.idx import check_pairs
from motet.data.readers.npz import names_in, read_array
from motet.data.readers.raw import RawData
from motet.data.sources.source import Form, Source
from motet.errors import MotetError

CLASSES = (
    *("bladder", "femur-left", "femur-right", "heart", "kidney-left", "kidney-right"),
    *("liver", "lung-left", "lung-right", "pancreas", "spleen"),
)
PARTS = ("train", "val", "test")


def read(paths: Sequence[Path], settings: DataSettings) -> RawData:
    """MedMNIST's fields: images and labels of train, val and test; val is dealt with train."""
    path = paths[0]
    there = names_in(path)
    images, labels = [], []
    for part in PARTS:
        for field in (f"{part}_images", f"{part}_labels"):
            if field not in there:
                raise MotetError(f"{path}: field {field!r} is missing; accepted: MedMNIST's organamnist.npz")
        x, y = read_array(path, f"{part}_images"), read_array(path, f"{part}_labels")
        if x.dtype != np.uint8 or x.ndim != 3 or y.dtype.kind not in "iu" or y.ndim not in (1, 2) or y.size != len(y):
            raise MotetError(
                f"{path}: {part} holds images of {x.dtype} {x.shape} and labels of {y.dtype} {y.shape}; accepted: "
                f"bytes [n, H, W] and whole numbers [n, 1]"
            )
        check_pairs(x, y, len(CLASSES), str(path), part)
        images.append(x)
        labels.append(y.reshape(-1).astype(np.int64))
    if len({x.shape[1:] for x in images}) > 1:
        raise MotetError(f"{path}: images of train, val and test differ in size; accepted: one size")
    return RawData(
        x=np.concatenate(images)[..., None],
        y=np.concatenate(labels),
        kind="image",
        classes=len(CLASSES),
        top=255,
        net="cnn4",
        split=np.repeat([0, 0, 1], [len(y) for y in labels]),
        class_names=CLASSES,
    )


ORGANAMNIST = Source(
    name="organamnist",
    summary="OrganAMNIST: 41,052 + 17,778 slices of abdominal CT, 28x28 grey pixels, 11 organs",
    paper="Yang et al., MedMNIST v2, Scientific Data 2023",
    licence="CC BY 4.0",
    net="cnn4",
    forms=tuple(Form((name,), read) for name in ("organamnist.npz", "organamnist_64.npz")),
    folders=("medmnist", ".medmnist"),
    samples=58_830,
    where="medmnist.com; its makers publish an MD5 alone",
)

ENTRIES = (ORGANAMNIST,)
