"""office-home: things of offices and homes in four domains, as folders."""

from collections.abc import Sequence
from pathlib import Path

from motet.data import image_folder
from motet.data.raw import RawData
from motet.data.settings import IMAGE_FIELDS, DataSettings
from motet.data.sources.source import Form, Source

SIZE = 64
"""Pixels, where `data.size` says nothing: the files have all sizes, and together they would fill a memory."""


def folder(paths: Sequence[Path], settings: DataSettings) -> RawData:
    """domain/class/file, found by the names of the domains."""
    return image_folder.load(paths[0].parent, settings, size=SIZE, levels="domain/class")


def archive(paths: Sequence[Path], settings: DataSettings) -> RawData:
    """The same in a .zip."""
    return image_folder.load(paths[0], settings, size=SIZE, levels="domain/class")


ENTRY = Source(
    name="office-home",
    summary="Office-Home: 15,588 pictures of 65 things in 4 domains (Art, Clipart, Product, Real World), colour, "
    "resized to 64x64 unless data.size says otherwise",
    paper="Venkateswara, Eusebio, Chakraborty and Panchanathan, Deep Hashing Network for Unsupervised Domain "
    "Adaptation, CVPR 2017",
    licence="non-commercial research and teaching",
    net="cnn4",
    obeys=(*IMAGE_FIELDS, "levels"),
    forms=(
        *(Form(("Art", "Clipart", "Product", real), folder, own_folder=True) for real in ("Real World", "Real_World")),
        *(Form((name,), archive) for name in ("OfficeHomeDataset_10072016.zip", "OfficeHome.zip", "office-home.zip")),
    ),
    folders=("OfficeHomeDataset_10072016", "office-home/OfficeHomeDataset_10072016", "OfficeHome", "office_home"),
    samples=15_588,
    where="hemanthdv.org/officeHomeDataset.html, as domain/class/file",
)
