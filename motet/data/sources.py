"""The data sets Motet knows by name, and the door to the user's own."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from motet.data.fashion import load_fashion
from motet.data.folders import cache_folder, data_folder
from motet.data.own import load_own
from motet.data.raw import RawData
from motet.errors import MotetError, unknown


@dataclass(frozen=True)
class Source:
    """A data set with a name. `load` takes whether it may download."""

    name: str
    summary: str
    paper: str
    licence: str
    net: str
    load: Callable[[bool], RawData]


def load(name: str, download: bool = False) -> RawData:
    """The data of a registered name, an .npz file or a folder of .npz files."""
    if name in SOURCES:
        return SOURCES[name].load(download)
    path = Path(name).expanduser()
    if path.suffix == ".npz" or os.sep in name or path.exists():
        return load_own(path)
    raise unknown("data", name, [*SOURCES, "FILE.npz", "FOLDER/"])


def default_net(name: str) -> str:
    """The network a data set gets when the user names none (the user's own data is read for this)."""
    return SOURCES[name].net if name in SOURCES else load(name).net


def describe_sources() -> list[dict[str, str]]:
    """One entry per data set, for `motet list data`."""
    return [
        {"name": s.name, "summary": s.summary, "paper": s.paper, "licence": s.licence, "net": s.net}
        for s in SOURCES.values()
    ]


def _load_digits(download: bool) -> RawData:
    from sklearn.datasets import load_digits  # here, for it is slow to import

    digits = load_digits()
    return RawData(
        x=digits.images.astype(np.uint8)[..., None],
        y=digits.target.astype(np.int64),
        kind="image",
        classes=10,
        top=16,
        net="mlp",
    )


def _load_mnist(download: bool) -> RawData:
    folders = [folder for folder in (data_folder(), cache_folder()) if folder]
    for folder in folders:
        if (folder / "mnist.npz").is_file():
            return load_own(folder / "mnist.npz")
    raise MotetError(
        "data 'mnist' is not on this machine; accepted: a file mnist.npz (x, y, split) in the folder that MOTET_DATA "
        "names or in the cache folder (downloading it is not offered)"
    )


_SOURCES = (
    Source(
        name="digits",
        summary="1,797 handwritten digits of 8x8 pixels in 10 classes, embedded in scikit-learn",
        paper="Alpaydin and Kaynak, Optical Recognition of Handwritten Digits, UCI 1998",
        licence="CC BY 4.0",
        net="mlp",
        load=_load_digits,
    ),
    Source(
        name="fmnist",
        summary="Fashion-MNIST: 60,000 + 10,000 pictures of clothes, 28x28 grey pixels, 10 classes",
        paper="Xiao, Rasul and Vollgraf, Fashion-MNIST, arXiv:1708.07747, 2017",
        licence="MIT",
        net="cnn4",
        load=load_fashion,
    ),
    Source(
        name="mnist",
        summary="MNIST: 60,000 + 10,000 handwritten digits, 28x28 grey pixels, from your own mnist.npz",
        paper="LeCun, Bottou, Bengio and Haffner, Gradient-based learning applied to document recognition, 1998",
        licence="CC BY-SA 3.0",
        net="cnn4",
        load=_load_mnist,
    ),
)
SOURCES: dict[str, Source] = {source.name: source for source in _SOURCES}
