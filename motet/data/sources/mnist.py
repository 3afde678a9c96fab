"""mnist and fmnist: two data sets in the same form, four IDX files; mnist also from mnist.npz."""

from collections.abc import Sequence
from pathlib import Path

from motet.config.data_section import DataSettings
from motet.data.readers.idx import FILES, GZIPPED, read_four
from motet.data.readers.raw import RawData
from motet.data.sources.fetch import find
from motet.data.sources.source import Download, Form, Source, npz_form

MNIST_ADDRESS = "https://storage.googleapis.com/cvdf-datasets/mnist/"
MNIST_SHA256 = {
    "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}


def read_mnist(paths: Sequence[Path], settings: DataSettings) -> RawData:
    """The 60,000 training and 10,000 test images, in the official order."""
    return read_four(paths)


MNIST = Source(
    name="mnist",
    summary="MNIST: 60,000 + 10,000 handwritten digits, 28x28 grey pixels, 10 classes",
    paper="LeCun, Bottou, Bengio and Haffner, Gradient-based learning applied to document recognition, 1998",
    licence="CC BY-SA 3.0",
    net="cnn4",
    forms=(
        npz_form("mnist.npz", "image", 10),
        Form(GZIPPED, read_mnist, own_folder=True),  # Fashion-MNIST's files have the same names
        Form(FILES, read_mnist, own_folder=True),
    ),
    folders=("MNIST/raw",),
    samples=70_000,
    downloads=tuple(Download(MNIST_ADDRESS + name, sha256) for name, sha256 in MNIST_SHA256.items()),
)


# -------- fmnist: Fashion-MNIST, found on this machine, or fetched when asked


FASHION_ADDRESS = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
# Of the files at that address. Debian's are compressed again, so theirs differ: only downloads are checked.
FASHION_SHA256 = {
    "train-images-idx3-ubyte.gz": "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
    "train-labels-idx1-ubyte.gz": "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
    "t10k-images-idx3-ubyte.gz": "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
    "t10k-labels-idx1-ubyte.gz": "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
}
CLASSES = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")


def read_fashion(paths: Sequence[Path], settings: DataSettings) -> RawData:
    """The 60,000 training and 10,000 test images, in the official order."""
    return read_four(paths, CLASSES)


def find_fashion() -> Path | None:
    """The folder with all four files, if there is one."""
    found = find(FASHION)
    return found.place if found else None


FASHION = Source(
    name="fmnist",
    summary="Fashion-MNIST: 60,000 + 10,000 pictures of clothes, 28x28 grey pixels, 10 classes",
    paper="Xiao, Rasul and Vollgraf, Fashion-MNIST, arXiv:1708.07747, 2017",
    licence="MIT",
    net="cnn4",
    forms=(Form(GZIPPED, read_fashion), Form(FILES, read_fashion)),
    folders=("fashion-mnist", "FashionMNIST/raw"),
    samples=70_000,
    downloads=tuple(Download(FASHION_ADDRESS + name, sha256) for name, sha256 in FASHION_SHA256.items()),
    package="dataset-fashion-mnist",
)

ENTRIES = (MNIST, FASHION)
