"""cifar100: from cifar100.npz, the binary version or the Python version; 100 fine or 20 coarse classes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from motet.config.data_section import DataSettings
from motet.data.readers.archives import read_members
from motet.data.readers.plain_pickle import NotPlain, plain_values
from motet.data.readers.raw import Array, RawData
from motet.data.sources.source import Download, Form, Source, npz_form
from motet.errors import MotetError
from motet.io.user_paths import shown_path

# -------- The files of CIFAR-10 and CIFAR-100


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


# -------- cifar10: from cifar10.npz, the binary version or the Python version


CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
TRAINING = [f"data_batch_{number}" for number in range(1, 6)]


def cifar10_binary(paths: Sequence[Path], settings: DataSettings) -> RawData:
    """Six files of 10,000 rows: a label, 1,024 bytes of red, green and blue."""
    batches = read_binary(paths[0], [f"{name}.bin" for name in (*TRAINING, "test_batch")], 1, 0)
    return arranged(batches[:5], batches[5:], CLASSES, paths[0])


def cifar10_python(paths: Sequence[Path], settings: DataSettings) -> RawData:
    """Six pickles, read without unpickling."""
    batches = read_python(paths[0], [*TRAINING, "test_batch"], "labels")
    return arranged(batches[:5], batches[5:], CLASSES, paths[0])


CIFAR10 = Source(
    name="cifar10",
    summary="CIFAR-10: 50,000 + 10,000 photographs, 32x32 colour pixels, 10 classes",
    paper="Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009",
    licence="none stated; research use is customary",
    net="cnn4",
    forms=(
        npz_form("cifar10.npz", "image", 10, CLASSES),
        Form(("cifar-10-batches-bin",), cifar10_binary),
        Form(("cifar-10-binary.tar.gz",), cifar10_binary),
        Form(("cifar-10-batches-py",), cifar10_python),
        Form(("cifar-10-python.tar.gz",), cifar10_python),
    ),
    samples=60_000,
    downloads=(
        Download(
            "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
            "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
        ),
    ),
)


# -------- cifar100: from cifar100.npz, the binary version or the Python version; 100 fine or 20 coarse classes


_FINE = (
    "apple,aquarium_fish,baby,bear,beaver,bed,bee,beetle,bicycle,bottle,bowl,boy,bridge,bus,butterfly,camel,can,castle,"
    "caterpillar,cattle,chair,chimpanzee,clock,cloud,cockroach,couch,crab,crocodile,cup,dinosaur,dolphin,elephant,"
    "flatfish,forest,fox,girl,hamster,house,kangaroo,keyboard,lamp,lawn_mower,leopard,lion,lizard,lobster,man,"
    "maple_tree,motorcycle,mountain,mouse,mushroom,oak_tree,orange,orchid,otter,palm_tree,pear,pickup_truck,pine_tree,"
    "plain,plate,poppy,porcupine,possum,rabbit,raccoon,ray,road,rocket,rose,sea,seal,shark,shrew,skunk,skyscraper,"
    "snail,snake,spider,squirrel,streetcar,sunflower,sweet_pepper,table,tank,telephone,television,tiger,tractor,train,"
    "trout,tulip,turtle,wardrobe,whale,willow_tree,wolf,woman,worm"
)
_COARSE = (
    "aquatic_mammals,fish,flowers,food_containers,fruit_and_vegetables,household_electrical_devices,"
    "household_furniture,insects,large_carnivores,large_man-made_outdoor_things,large_natural_outdoor_scenes,"
    "large_omnivores_and_herbivores,medium_mammals,non-insect_invertebrates,people,reptiles,small_mammals,trees,"
    "vehicles_1,vehicles_2"
)
FINE, COARSE = tuple(_FINE.split(",")), tuple(_COARSE.split(","))
NAMES = {"fine": FINE, "coarse": COARSE}


def cifar100_binary(paths: Sequence[Path], settings: DataSettings) -> RawData:
    """Two files of rows: the coarse label, the fine label, 1,024 bytes of red, green and blue."""
    variant = CIFAR100.variant(settings)
    training, test = read_binary(paths[0], ["train.bin", "test.bin"], 2, 1 if variant == "fine" else 0)
    return arranged([training], [test], NAMES[variant], paths[0])


def cifar100_python(paths: Sequence[Path], settings: DataSettings) -> RawData:
    """Two pickles, read without unpickling."""
    variant = CIFAR100.variant(settings)
    training, test = read_python(paths[0], ["train", "test"], f"{variant}_labels")
    return arranged([training], [test], NAMES[variant], paths[0])


_NPZ = npz_form("cifar100.npz", "image", 100, FINE)


def npz(paths: Sequence[Path], settings: DataSettings) -> RawData:
    """A user's own file has one label per image, the fine one."""
    if CIFAR100.variant(settings) != "fine":
        raise MotetError(f"{paths[0]}: has no coarse labels; accepted: data.variant fine, or the official files")
    return _NPZ.read(paths, settings)


CIFAR100 = Source(
    name="cifar100",
    summary="CIFAR-100: 50,000 + 10,000 photographs, 32x32 colour pixels, 100 classes (variant coarse: 20)",
    paper="Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009",
    licence="none stated; research use is customary",
    net="cnn4",
    obeys=("variant",),
    forms=(
        Form(_NPZ.files, npz, clients=None),
        Form(("cifar-100-binary",), cifar100_binary),
        Form(("cifar-100-binary.tar.gz",), cifar100_binary),
        Form(("cifar-100-python",), cifar100_python),
        Form(("cifar-100-python.tar.gz",), cifar100_python),
    ),
    samples=60_000,
    variants=("fine", "coarse"),
    downloads=(
        Download(
            "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
            "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
        ),
    ),
)

ENTRIES = (CIFAR10, CIFAR100)
