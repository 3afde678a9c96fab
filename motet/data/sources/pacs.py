"""pacs: photographs, paintings, cartoons and sketches of seven things: four domains as folders."""

from collections.abc import Sequence
from pathlib import Path

from motet.data import image_folder
from motet.data.raw import RawData
from motet.data.settings import DataSettings
from motet.data.sources.source import Form, Source


def read(paths: Sequence[Path], settings: DataSettings) -> RawData:
    """domain/class/file, in a folder or a .zip."""
    return image_folder.load(paths[0], settings, levels="domain/class")


ENTRY = Source(
    name="pacs",
    summary="PACS: 9,991 pictures of 7 things in 4 domains (art painting, cartoon, photo, sketch), colour",
    paper="Li, Yang, Song and Hospedales, Deeper, Broader and Artier Domain Generalization, ICCV 2017",
    licence="none stated; research use is customary",
    net="cnn4",
    forms=tuple(Form((name,), read) for name in ("PACS", "pacs", "pacs.zip", "PACS.zip", "pacs64.zip", "kfold")),
    folders=("PACS",),
    samples=9991,
    where="domaingeneralization.github.io, as domain/class/file",
)
