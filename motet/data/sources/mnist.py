"""mnist: from mnist.npz or from the four official files."""

from collections.abc import Sequence
from pathlib import Path

from motet.data.idx import FILES, GZIPPED, read_four
from motet.data.raw import RawData
from motet.data.settings import DataSettings
from motet.data.sources.npz_form import npz_form
from motet.data.sources.source import Download, Form, Source

ADDRESS = "https://storage.googleapis.com/cvdf-datasets/mnist/"
SHA256 = {
    "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}


def read(paths: Sequence[Path], settings: DataSettings) -> RawData:
    """The 60,000 training and 10,000 test images, in the official order."""
    return read_four(paths)


ENTRY = Source(
    name="mnist",
    summary="MNIST: 60,000 + 10,000 handwritten digits, 28x28 grey pixels, 10 classes",
    paper="LeCun, Bottou, Bengio and Haffner, Gradient-based learning applied to document recognition, 1998",
    licence="CC BY-SA 3.0",
    net="cnn4",
    forms=(
        npz_form("mnist.npz", "image", 10),
        Form(GZIPPED, read, own_folder=True),  # Fashion-MNIST's files have the same names
        Form(FILES, read, own_folder=True),
    ),
    folders=("MNIST/raw",),
    samples=70_000,
    downloads=tuple(Download(ADDRESS + name, sha256) for name, sha256 in SHA256.items()),
)
