"""femnist: handwritten characters by who wrote them, from LEAF's JSON."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from motet.config.data_section import DataSettings
from motet.data.readers.image_folder import coded
from motet.data.readers.leaf import UserData, read_users
from motet.data.readers.raw import Array, RawData
from motet.data.sources.source import Form, Source
from motet.errors import MotetError, shown
from motet.io.text import listed

CLASSES = tuple("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
SIDE = 28


def read(paths: Sequence[Path], settings: DataSettings) -> RawData:
    """Read all users as clients; LEAF's pixels from 0 to 1 become the bytes that they were made from."""
    parts, labels, users, split, empty = [], [], list[str](), list[int](), list[str]()
    for found in read_users(paths):
        if not found.y:
            empty.append(found.user)
            continue
        parts.append(_pixels(found))
        labels.append(_labels(found))
        users += [found.user] * len(found.y)
        split += [int(found.test)] * len(found.y)
    if not parts:
        raise MotetError(f"{paths[0].parent}: holds users without samples; accepted: at least one sample")
    client, names = coded(users)
    without = sorted(set(empty) - set(users))
    if len(names) < 2:
        raise MotetError(
            f"{paths[0].parent}: holds samples of user {shown(names[0])} alone; accepted: two users or more"
        )
    tested = any(split) and not all(split)
    return RawData(
        x=np.concatenate(parts),
        y=np.concatenate(labels),
        kind="image",
        classes=len(CLASSES),
        top=255,
        net="cnn4",
        split=np.array(split, np.int64) if tested else None,
        client=client,
        class_names=CLASSES,
        client_names=names,
        notes=(f"{len(without)} users without samples take no part: {listed(without)}",) if without else (),
    )


def _pixels(found: UserData) -> Array:
    try:
        x = np.array(found.x, np.float32)
        sound = x.shape == (len(found.y), SIDE * SIDE) and bool(np.isfinite(x).all()) and x.min() >= 0 and x.max() <= 1
    except (TypeError, ValueError, OverflowError):
        sound = False
    if not sound:
        raise MotetError(
            f"{found.where}: x of user {shown(found.user)} is no list of images; accepted: each {SIDE * SIDE} numbers "
            f"from 0 to 1"
        )
    return np.rint(x * 255).astype(np.uint8).reshape(-1, SIDE, SIDE, 1)


def _labels(found: UserData) -> Array:
    wrong = [y for y in found.y if type(y) is not int or not 0 <= y < len(CLASSES)]
    if wrong:
        raise MotetError(
            f"{found.where}: y of user {shown(found.user)} holds {shown(wrong[0])}; accepted: whole numbers from 0 to "
            f"{len(CLASSES) - 1}"
        )
    return np.array(found.y, np.int64)


FEMNIST = Source(
    name="femnist",
    summary="FEMNIST: handwritten digits and letters by 3,550 writers, 28x28 grey pixels, 62 classes",
    paper="Caldas et al., LEAF: A Benchmark for Federated Settings, arXiv:1812.01097, 2018",
    licence="LEAF BSD-2-Clause; NIST Special Database 19 is in the public domain",
    net="cnn4",
    forms=tuple(
        Form(files, read, own_folder=True, clients=True)
        for folder in ("", "data/")
        for files in (
            (f"{folder}train/*.json", f"{folder}test/*.json"),
            (f"{folder}all_data/*.json",),
        )
    ),
    folders=("leaf/data/femnist", "leaf/femnist"),
    where="github.com/TalwalkarLab/leaf, whose script makes train/*.json and test/*.json",
)

ENTRIES = (FEMNIST,)
