"""fmnist: Fashion-MNIST, found on this machine, or fetched when asked."""

import sys
from pathlib import Path

import numpy as np

from motet.data.download import fetch
from motet.data.folders import cache_folder, data_folder
from motet.data.idx import read_idx
from motet.data.raw import RawData
from motet.data.sources.source import Source
from motet.errors import MotetError

ADDRESS = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
ROOTS = (sys.prefix, sys.base_prefix, "/usr/local", "/usr")
# Of the files at that address. Debian's are compressed again, so theirs differ: only downloads are checked.
SHA256 = {
    "train-images-idx3-ubyte.gz": "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
    "train-labels-idx1-ubyte.gz": "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
    "t10k-images-idx3-ubyte.gz": "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
    "t10k-labels-idx1-ubyte.gz": "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
}
CLASSES = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")


def load(download: bool) -> RawData:
    """The 60,000 training and 10,000 test images, in the official order."""
    folder = find_fashion() or (fetch_fashion(cache_folder() / "fashion-mnist") if download else None)
    if folder is None:
        raise MotetError(
            "data 'fmnist' is not on this machine; accepted: Debian's package dataset-fashion-mnist, "
            "its four .gz files in the folder that MOTET_DATA names, or download = true"
        )
    images, labels = [], []
    for part in ("train", "t10k"):
        x = read_idx(folder / f"{part}-images-idx3-ubyte.gz", 3)
        y = read_idx(folder / f"{part}-labels-idx1-ubyte.gz", 1)
        if len(x) != len(y):
            raise MotetError(f"{folder}: {len(x)} images but {len(y)} labels in {part}; accepted: as many")
        if y.max(initial=0) > 9:
            raise MotetError(f"{folder}: label {y.max()} in {part}; accepted: labels from 0 to 9")
        images.append(x)
        labels.append(y)
    return RawData(
        x=np.concatenate(images)[..., None],
        y=np.concatenate(labels).astype(np.int64),
        kind="image",
        classes=10,
        top=255,
        net=ENTRY.net,
        split=np.repeat([0, 1], [len(labels[0]), len(labels[1])]),
        class_names=CLASSES,
    )


def find_fashion() -> Path | None:
    """The first folder with all four files: the user's, Debian's, the cache."""
    own = data_folder()
    folders = [own / "fashion-mnist", own] if own else []
    folders += [Path(root) / "share/datasets/fashion-mnist" for root in ROOTS]
    folders.append(cache_folder() / "fashion-mnist")
    return next((folder for folder in folders if all((folder / name).is_file() for name in SHA256)), None)


def fetch_fashion(folder: Path) -> Path:
    """Download the four files into a folder."""
    for name, sha256 in SHA256.items():
        fetch(ADDRESS + name, folder / name, sha256, "data 'fmnist'")
    return folder


ENTRY = Source(
    name="fmnist",
    summary="Fashion-MNIST: 60,000 + 10,000 pictures of clothes, 28x28 grey pixels, 10 classes",
    paper="Xiao, Rasul and Vollgraf, Fashion-MNIST, arXiv:1708.07747, 2017",
    licence="MIT",
    net="cnn4",
    load=load,
)
