"""har: smartphone signals of 30 people, from har.npz or the official text files."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from motet.config.data_section import DataSettings
from motet.data.readers.archives import read_members
from motet.data.readers.raw import Array, RawData
from motet.data.sources.source import Download, Form, Source, npz_form
from motet.errors import MotetError
from motet.io.user_paths import shown_path

CLASSES = ("walking", "upstairs", "downstairs", "sitting", "standing", "laying")
CHANNELS = [f"{sensor}_{axis}" for sensor in ("body_acc", "body_gyro", "total_acc") for axis in "xyz"]
STEPS = 128
MOST_BYTES = 100_000_000  # of one text file; the largest has 15 million
_NPZ = npz_form("har.npz", "signal", 6, CLASSES)


def npz(paths: Sequence[Path], settings: DataSettings) -> RawData:
    """x [n, 9, 128] with the channels in the official order, y from 0, client = subject."""
    raw = _NPZ.read(paths, settings)
    if raw.x.shape[1:] != (len(CHANNELS), STEPS):
        raise MotetError(f"{paths[0]}: field 'x' has shape {raw.x.shape}; accepted: (n, {len(CHANNELS)}, {STEPS})")
    return replace(raw, x=_laid_out(raw.x, settings))


def text(paths: Sequence[Path], settings: DataSettings) -> RawData:
    """The files of Inertial Signals, with the subjects and labels beside them; train and test are merged.

    The official split is one between subjects, who are the clients here.
    """
    root = paths[0]
    parts = [_part(root, name) for name in ("train", "test")]
    x, y, subject = (np.concatenate([part[at] for part in parts]) for at in range(3))
    return RawData(
        x=_laid_out(x, settings),
        y=y.astype(np.int64) - 1,
        kind="signal",
        classes=len(CLASSES),
        top=1,
        net="har-cnn",
        client=subject.astype(np.int64),
        class_names=CLASSES,
    )


def _laid_out(x: Array, settings: DataSettings) -> Array:
    """Channels over time; or as DBE's code has it, which cut rows of (time, channel) into nine pieces."""
    if settings.layout == "transposed":
        return x
    return np.ascontiguousarray(x.transpose(0, 2, 1)).reshape(x.shape)


def _part(root: Path, part: str) -> tuple[Array, Array, Array]:
    signals = [f"{part}/Inertial Signals/{channel}_{part}.txt" for channel in CHANNELS]
    names = [*signals, f"{part}/y_{part}.txt", f"{part}/subject_{part}.txt"]
    contents = read_members(root, names, MOST_BYTES)
    where = shown_path(root)
    labels, subjects = (_whole(contents[at], f"{where}: {names[at]}") for at in (-2, -1))
    if not len(labels) or labels.min() < 1 or labels.max() > len(CLASSES):
        raise MotetError(f"{where}: {names[-2]} holds no labels from 1 to {len(CLASSES)}; accepted: the official file")
    if len(subjects) != len(labels):
        raise MotetError(f"{where}: {len(labels)} labels but {len(subjects)} subjects in {part}; accepted: as many")
    x = np.empty((len(labels), len(CHANNELS), STEPS), np.float32)
    for channel, (name, content) in enumerate(zip(signals, contents[: len(signals)], strict=True)):
        values = _numbers(content, f"{where}: {name}")
        if len(values) != len(labels) * STEPS or not np.isfinite(values).all():
            raise MotetError(
                f"{where}: {name} holds {len(values)} numbers; accepted: {STEPS} finite ones for each of "
                f"{len(labels)} labels"
            )
        x[:, channel] = values.reshape(-1, STEPS)
    return x, labels, subjects


def _numbers(content: bytes, where: str) -> Array:
    try:
        return np.array(content.split(), np.float32)
    except (ValueError, OverflowError):
        raise MotetError(f"{where} holds text that is no numbers; accepted: the official file") from None


def _whole(content: bytes, where: str) -> Array:
    words = content.split()
    if not all(word.isdigit() and len(word) < 10 for word in words):
        raise MotetError(f"{where} holds text that is no whole numbers; accepted: the official file")
    return np.array(words, np.int64)


HAR = Source(
    name="har",
    summary="UCI HAR: 10,299 windows of 9 smartphone sensors over 128 steps, 6 activities of 30 people",
    paper="Anguita, Ghio, Oneto, Parra and Reyes-Ortiz, A Public Domain Dataset for Human Activity Recognition Using "
    "Smartphones, ESANN 2013",
    licence="CC BY 4.0 at UCI; its makers' own text forbids commercial use",
    net="har-cnn",
    obeys=("layout",),
    forms=(
        Form(_NPZ.files, npz, clients=None),
        Form(("UCI HAR Dataset",), text, clients=True),
        Form(("UCI HAR Dataset.zip",), text, clients=True),
    ),
    samples=10_299,
    downloads=(
        Download(
            "https://archive.ics.uci.edu/ml/machine-learning-databases/00240/UCI%20HAR%20Dataset.zip",
            "2045e435c955214b38145fb5fa00776c72814f01b203fec405152dac7d5bfeb0",
        ),
    ),
)

ENTRIES = (HAR,)
