"""cifar10: from cifar10.npz, the binary version or the Python version."""

from collections.abc import Sequence
from pathlib import Path

from motet.data.cifar import arranged, read_binary, read_python
from motet.data.raw import RawData
from motet.data.settings import DataSettings
from motet.data.sources.npz_form import npz_form
from motet.data.sources.source import Download, Form, Source

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
TRAINING = [f"data_batch_{number}" for number in range(1, 6)]


def binary(paths: Sequence[Path], settings: DataSettings) -> RawData:
    """Six files of 10,000 rows: a label, 1,024 bytes of red, green and blue."""
    batches = read_binary(paths[0], [f"{name}.bin" for name in (*TRAINING, "test_batch")], 1, 0)
    return arranged(batches[:5], batches[5:], CLASSES, paths[0])


def python(paths: Sequence[Path], settings: DataSettings) -> RawData:
    """Six pickles, read without unpickling."""
    batches = read_python(paths[0], [*TRAINING, "test_batch"], "labels")
    return arranged(batches[:5], batches[5:], CLASSES, paths[0])


ENTRY = Source(
    name="cifar10",
    summary="CIFAR-10: 50,000 + 10,000 photographs, 32x32 colour pixels, 10 classes",
    paper="Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009",
    licence="none stated; research use is customary",
    net="cnn4",
    forms=(
        npz_form("cifar10.npz", "image", 10, CLASSES),
        Form(("cifar-10-batches-bin",), binary),
        Form(("cifar-10-binary.tar.gz",), binary),
        Form(("cifar-10-batches-py",), python),
        Form(("cifar-10-python.tar.gz",), python),
    ),
    samples=60_000,
    downloads=(
        Download(
            "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
            "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
        ),
    ),
)
