"""pacs: photographs, paintings, cartoons and sketches of seven things: four domains as folders."""

from collections.abc import Sequence
from pathlib import Path

from motet.data import image_folder
from motet.data.raw import RawData
from motet.data.settings import IMAGE_FIELDS, DataSettings
from motet.data.sources.source import Form, Source

DOMAINS = ("art_painting", "cartoon", "photo", "sketch")


def folder(paths: Sequence[Path], settings: DataSettings) -> RawData:
    """domain/class/file, found by the names of the domains."""
    return image_folder.load(paths[0].parent, settings, levels="domain/class")


def archive(paths: Sequence[Path], settings: DataSettings) -> RawData:
    """The same in a .zip."""
    return image_folder.load(paths[0], settings, levels="domain/class")


ENTRY = Source(
    name="pacs",
    summary="PACS: 9,991 pictures of 7 things in 4 domains (art painting, cartoon, photo, sketch), colour",
    paper="Li, Yang, Song and Hospedales, Deeper, Broader and Artier Domain Generalization, ICCV 2017",
    licence="none stated; research use is customary",
    net="cnn4",
    obeys=(*IMAGE_FIELDS, "levels"),
    forms=(
        Form(DOMAINS, folder, own_folder=True),
        *(Form((name,), archive) for name in ("pacs.zip", "PACS.zip", "pacs64.zip")),
    ),
    folders=("PACS", "PACS/kfold", "pacs/kfold", "kfold"),
    samples=9991,
    where="domaingeneralization.github.io, as domain/class/file",
)
