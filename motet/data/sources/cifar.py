"""cifar10 and cifar100: from an .npz file, the binary version or the Python version, in the official order.

The Python version is a pickle, and a pickle is a program that may do anything. It is read with an allow-list: of its
instructions, those that write texts, numbers, lists, dicts and tuples; of names, the three that make an array, for
which `find_class` returns our own stand-ins. They take an array of bytes and nothing else, so that not even NumPy is
called with what a file says.
"""

import io
import pickle
import pickletools
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from motet.config.data_section import DataSettings
from motet.data.readers.archives import read_members
from motet.data.readers.raw import Array, RawData
from motet.data.sources.source import Download, Form, Source, npz_form
from motet.errors import MotetError
from motet.io.user_paths import shown_path

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
    """Batches of the Python version, whose labels are under that key, read with the allow-list."""
    batches = []
    for name, data in zip(files, read_members(container, files, MOST_BYTES), strict=True):
        where = f"{shown_path(container)}: {name}"
        try:
            values = read_pickle(data)
        except NotABatch as error:
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


# -------- The pickles of the Python version


class NotABatch(ValueError):
    """A pickle that holds anything but texts, numbers and arrays of bytes; its message says what."""


_INSTRUCTIONS = {
    *("PROTO", "STOP", "MARK", "NONE", "NEWFALSE", "NEWTRUE", "BININT", "BININT1", "BININT2"),
    *("SHORT_BINSTRING", "BINSTRING", "BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET", "GLOBAL", "REDUCE", "BUILD"),
    *("EMPTY_DICT", "SETITEM", "SETITEMS", "EMPTY_LIST", "APPEND", "APPENDS"),
    *("EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"),
}
_RECONSTRUCT, _NDARRAY, _DTYPE = "numpy.core.multiarray._reconstruct", "numpy.ndarray", "numpy.dtype"


class _Name:
    """A stand-in for one of NumPy's three names; two of them may be called, with the arguments of these files."""

    def __init__(self, name: str):
        self.name = name

    def __call__(self, *arguments: object) -> "_Bytes | _Name":
        """Return an empty array of bytes, or the type of a byte."""
        if self.name == _RECONSTRUCT and isinstance(arguments[0], _Name) and arguments[0].name == _NDARRAY:
            if arguments[1:] == ((0,), "b"):
                return _Bytes()
        elif self.name == _DTYPE and arguments in (("u1", 0, 1), ("u1", False, True)):
            return _Name("u1")
        raise NotABatch("a call")

    def __setstate__(self, state: object) -> None:
        """Take what is said of the type of a byte, such as its order, of which it has none."""
        if self.name != "u1" or type(state) is not tuple:
            raise NotABatch("a state")


class _Bytes:
    """A stand-in for an array of bytes: its shape and its content, which is text in Latin-1."""

    def __init__(self) -> None:
        self.shape: tuple[int, ...] = (0,)
        self.content = ""

    def __setstate__(self, state: object) -> None:
        """Take the state that `ndarray` would take: version, shape, type, order and content."""
        if type(state) is not tuple or len(state) != 5:
            raise NotABatch("a state")
        _, shape, kind, fortran, content = state
        sides = type(shape) is tuple and all(type(side) is int and side >= 0 for side in shape)
        bytes_ = isinstance(kind, _Name) and kind.name == "u1"
        if not sides or not bytes_ or fortran is not False or type(content) is not str:
            raise NotABatch("an array that is none of bytes")
        if prod(shape) != len(content):
            raise NotABatch(f"{len(content)} bytes for shape {shape}")
        self.shape, self.content = shape, content


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> _Name:
        """Return our stand-in for one of the three names that make an array; no name is imported."""
        if f"{module}.{name}" not in (_RECONSTRUCT, _NDARRAY, _DTYPE):
            raise NotABatch(f"the name {module}.{name}"[:100])
        return _Name(f"{module}.{name}")


def read_pickle(data: bytes) -> dict[str, Any]:
    """Return the dict of a batch: texts, lists of texts and numbers, arrays of bytes; `NotABatch` for anything else."""
    try:
        _check_instructions(data)
        found = _Unpickler(io.BytesIO(data), encoding="latin-1").load()
    except NotABatch:
        raise
    except (ValueError, LookupError, AttributeError, TypeError, EOFError, pickle.UnpicklingError) as error:
        raise NotABatch(str(error)) from None
    if type(found) is not dict or not all(type(key) is str for key in found):
        raise NotABatch("no dict of names")
    arrays = {key: value for key, value in found.items() if isinstance(value, _Bytes)}
    if sum(len(array.content) for array in arrays.values()) > len(data):
        raise NotABatch("one array under many names")
    return {key: _value(value) for key, value in found.items()}


def _check_instructions(data: bytes) -> None:
    """Refuse other instructions, and a number to remember a value by that would make Python reserve memory for it."""
    remembered = 0
    for instruction, argument, _ in pickletools.genops(data):
        if instruction.name not in _INSTRUCTIONS:
            raise NotABatch(f"instruction {instruction.name}")
        if instruction.name in ("BINPUT", "LONG_BINPUT"):
            remembered += 1
            if int(argument or 0) > remembered:
                raise NotABatch("a number that skips others")


def _value(value: object) -> Any:
    if isinstance(value, _Bytes):
        return np.frombuffer(value.content.encode("latin-1"), np.uint8).reshape(value.shape)
    if type(value) is str or (type(value) is list and all(type(item) in (int, str) for item in value)):
        return value
    raise NotABatch(f"a {type(value).__name__}")


# -------- cifar10


CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
TRAINING = [f"data_batch_{number}" for number in range(1, 6)]


def cifar10_binary(paths: Sequence[Path], settings: DataSettings) -> RawData:
    """Six files of 10,000 rows: a label, 1,024 bytes of red, green and blue."""
    batches = read_binary(paths[0], [f"{name}.bin" for name in (*TRAINING, "test_batch")], 1, 0)
    return arranged(batches[:5], batches[5:], CLASSES, paths[0])


def cifar10_python(paths: Sequence[Path], settings: DataSettings) -> RawData:
    """Read the six pickles of the Python version."""
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


# -------- cifar100, with 100 fine or 20 coarse classes


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
    """Read the two pickles of the Python version."""
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
