"""pacs and office-home: photographs, paintings and the like of the same things, a folder for each domain and class."""

from collections.abc import Sequence
from pathlib import Path

from motet.config.data_section import IMAGE_FIELDS, DataSettings
from motet.data.readers import image_folder
from motet.data.readers.raw import RawData
from motet.data.sources.source import Form, Source

DOMAINS = ("art_painting", "cartoon", "photo", "sketch")


def pacs_folder(paths: Sequence[Path], settings: DataSettings) -> RawData:
    """domain/class/file, found by the names of the domains."""
    return image_folder.load(paths[0].parent, settings, levels="domain/class")


def pacs_archive(paths: Sequence[Path], settings: DataSettings) -> RawData:
    """Read PACS from a .zip."""
    return image_folder.load(paths[0], settings, levels="domain/class")


PACS = Source(
    name="pacs",
    summary="PACS: 9,991 pictures of 7 things in 4 domains (art painting, cartoon, photo, sketch), colour",
    paper="Li, Yang, Song and Hospedales, Deeper, Broader and Artier Domain Generalization, ICCV 2017",
    licence="none stated; research use is customary",
    net="cnn4",
    obeys=(*IMAGE_FIELDS, "levels"),
    forms=(
        Form(DOMAINS, pacs_folder, own_folder=True),
        *(Form((name,), pacs_archive) for name in ("pacs.zip", "PACS.zip", "pacs64.zip")),
    ),
    folders=("PACS", "PACS/kfold", "pacs/kfold", "kfold"),
    samples=9991,
    where="domaingeneralization.github.io, as domain/class/file",
)


# -------- office-home: things of offices and homes in four domains, as folders


SIZE = 64
"""Pixels, where `data.size` says nothing: the files have all sizes, and together they would fill a memory."""


def office_home_folder(paths: Sequence[Path], settings: DataSettings) -> RawData:
    """domain/class/file, found by the names of the domains."""
    return image_folder.load(paths[0].parent, settings, size=SIZE, levels="domain/class")


def office_home_archive(paths: Sequence[Path], settings: DataSettings) -> RawData:
    """Read Office-Home from a .zip."""
    return image_folder.load(paths[0], settings, size=SIZE, levels="domain/class")


OFFICE_HOME = Source(
    name="office-home",
    summary="Office-Home: 15,588 pictures of 65 things in 4 domains (Art, Clipart, Product, Real World), colour, "
    "resized to 64x64 unless data.size says otherwise",
    paper="Venkateswara, Eusebio, Chakraborty and Panchanathan, Deep Hashing Network for Unsupervised Domain "
    "Adaptation, CVPR 2017",
    licence="non-commercial research and teaching",
    net="cnn4",
    obeys=(*IMAGE_FIELDS, "levels"),
    forms=(
        *(
            Form(("Art", "Clipart", "Product", real), office_home_folder, own_folder=True)
            for real in ("Real World", "Real_World")
        ),
        *(
            Form((name,), office_home_archive)
            for name in ("OfficeHomeDataset_10072016.zip", "OfficeHome.zip", "office-home.zip")
        ),
    ),
    folders=("OfficeHomeDataset_10072016", "office-home/OfficeHomeDataset_10072016", "OfficeHome", "office_home"),
    samples=15_588,
    where="hemanthdv.org/officeHomeDataset.html, as domain/class/file",
)

ENTRIES = (PACS, OFFICE_HOME)
