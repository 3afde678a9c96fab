"""mnist: from the user's own mnist.npz."""

from motet.data.folders import cache_folder, data_folder
from motet.data.own import load_own
from motet.data.raw import RawData
from motet.data.sources.source import Source
from motet.errors import MotetError


def load(download: bool) -> RawData:
    """From the folder that MOTET_DATA names, or from the cache folder."""
    folders = [folder for folder in (data_folder(), cache_folder()) if folder]
    for folder in folders:
        if (folder / "mnist.npz").is_file():
            return load_own(folder / "mnist.npz")
    raise MotetError(
        "data 'mnist' is not on this machine; accepted: a file mnist.npz (x, y, split) in the folder that MOTET_DATA "
        "names or in the cache folder (downloading it is not offered)"
    )


ENTRY = Source(
    name="mnist",
    summary="MNIST: 60,000 + 10,000 handwritten digits, 28x28 grey pixels, from your own mnist.npz",
    paper="LeCun, Bottou, Bengio and Haffner, Gradient-based learning applied to document recognition, 1998",
    licence="CC BY-SA 3.0",
    net="cnn4",
    load=load,
)
