"""fmnist: Fashion-MNIST, found on this machine, or fetched when asked."""

from collections.abc import Sequence
from pathlib import Path

from motet.data.idx import FILES, GZIPPED, read_four
from motet.data.raw import RawData
from motet.data.settings import DataSettings
from motet.data.sources.finding import find
from motet.data.sources.source import Download, Form, Source

ADDRESS = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
# Of the files at that address. Debian's are compressed again, so theirs differ: only downloads are checked.
SHA256 = {
    "train-images-idx3-ubyte.gz": "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
    "train-labels-idx1-ubyte.gz": "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
    "t10k-images-idx3-ubyte.gz": "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
    "t10k-labels-idx1-ubyte.gz": "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
}
CLASSES = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")


def read(paths: Sequence[Path], settings: DataSettings) -> RawData:
    """The 60,000 training and 10,000 test images, in the official order."""
    return read_four(paths, CLASSES)


def find_fashion() -> Path | None:
    """The folder with all four files, if there is one."""
    found = find(ENTRY)
    return found.place if found else None


ENTRY = Source(
    name="fmnist",
    summary="Fashion-MNIST: 60,000 + 10,000 pictures of clothes, 28x28 grey pixels, 10 classes",
    paper="Xiao, Rasul and Vollgraf, Fashion-MNIST, arXiv:1708.07747, 2017",
    licence="MIT",
    net="cnn4",
    forms=(Form(GZIPPED, read), Form(FILES, read)),
    folders=("fashion-mnist", "FashionMNIST/raw"),
    samples=70_000,
    downloads=tuple(Download(ADDRESS + name, sha256) for name, sha256 in SHA256.items()),
    package="dataset-fashion-mnist",
)
