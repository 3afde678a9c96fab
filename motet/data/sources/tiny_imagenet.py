"""tiny-imagenet: 200 classes of ImageNet at 64x64, from the official folder or .zip."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from motet.config.data_section import IMAGE_FIELDS, DataSettings
from motet.data.readers.archives import Box, ListedFile, open_box
from motet.data.readers.image_files import is_image, read_images
from motet.data.readers.raw import RawData
from motet.data.sources.source import Download, Form, Source
from motet.errors import MotetError, shown
from motet.io.user_paths import shown_path

SIZE = 64


@dataclass(frozen=True)
class _Labelled:
    file: ListedFile
    word: str
    split: int


def read(paths: Sequence[Path], settings: DataSettings) -> RawData:
    """train/CLASS/images/FILE, and val/images/FILE with val/val_annotations.txt; the test set has no labels."""
    with open_box(paths[0]) as box:
        by_name = {file.parts[_around(file.parts) :]: file for file in box.files}
        ids = _text(box, by_name, ("wnids.txt",)).split()
        if len(ids) < 2 or len(set(ids)) < len(ids):
            raise MotetError(f"{shown_path(box.path)}: wnids.txt names no classes, or one twice; accepted: 200 names")
        chosen = [*_training(by_name, box.path), *_validation(box, by_name)]
        number = {word: at for at, word in enumerate(ids)}
        stranger = next((each for each in chosen if each.word not in number), None)
        if stranger is not None:
            raise MotetError(
                f"{shown_path(box.path)}: {shown(stranger.file.name)} is of class {shown(stranger.word)}; accepted: "
                f"those of wnids.txt"
            )
        pictures = read_images(box, [each.file for each in chosen], settings, SIZE)
        names = _names(_text(box, by_name, ("words.txt",)) if ("words.txt",) in by_name else "", ids)
    kept = [each for each, left in zip(chosen, pictures.kept, strict=True) if left]
    return RawData(
        x=pictures.x,
        y=np.array([number[each.word] for each in kept], np.int64),
        kind="image",
        classes=len(ids),
        top=255,
        net="cnn4",
        split=np.array([each.split for each in kept], np.int64),
        class_names=names,
        notes=pictures.notes,
    )


def _around(parts: tuple[str, ...]) -> int:
    """Return how many folders lie around the data set in its .zip."""
    return 1 if len(parts) > 1 and parts[0] == "tiny-imagenet-200" else 0


def _training(by_name: dict[tuple[str, ...], ListedFile], where: Path) -> list[_Labelled]:
    found = [
        _Labelled(file, parts[1], 0)
        for parts, file in by_name.items()
        if len(parts) == 4 and parts[0] == "train" and parts[2] == "images" and is_image(parts[3])
    ]
    if not found:
        raise MotetError(f"{shown_path(where)}: holds no train/CLASS/images/FILE; accepted: the official folder")
    return found


def _validation(box: Box, by_name: dict[tuple[str, ...], ListedFile]) -> list[_Labelled]:
    found = []
    for line in _text(box, by_name, ("val", "val_annotations.txt")).splitlines():
        name, _, rest = line.partition("\t")
        file = by_name.get(("val", "images", name))
        if file is None:
            raise MotetError(
                f"{shown_path(box.path)}: val_annotations.txt names {shown(name)}, which is not in val/images; "
                f"accepted: the official folder"
            )
        found.append(_Labelled(file, rest.split("\t")[0], 1))
    return found


def _text(box: Box, by_name: dict[tuple[str, ...], ListedFile], name: tuple[str, ...]) -> str:
    try:
        return box.read(by_name[name]).decode()
    except (KeyError, OSError, ValueError):
        raise MotetError(
            f"{shown_path(box.path)}: {'/'.join(name)} is missing or no text; accepted: the official folder"
        ) from None


def _names(words: str, ids: list[str]) -> tuple[str, ...]:
    """The first of a class's words, and its number in WordNet where two classes have the same."""
    spoken = dict(line.split("\t", 1) for line in words.splitlines() if "\t" in line)
    first = [spoken.get(word, word).split(",")[0].strip() for word in ids]
    return tuple(name if first.count(name) == 1 else f"{name} {word}" for name, word in zip(first, ids, strict=True))


TINY_IMAGENET = Source(
    name="tiny-imagenet",
    summary="Tiny-ImageNet: 100,000 + 10,000 photographs, 64x64 colour pixels, 200 classes",
    paper="Le and Yang, Tiny ImageNet Visual Recognition Challenge, 2015",
    licence="ImageNet's: non-commercial research and teaching",
    net="cnn4",
    obeys=IMAGE_FIELDS,
    forms=(Form(("tiny-imagenet-200",), read), Form(("tiny-imagenet-200.zip",), read)),
    samples=110_000,
    downloads=(
        Download(
            "http://cs231n.stanford.edu/tiny-imagenet-200.zip",
            "6198c8ae015e2b3e007c7841da39ec069199b9aa3bfa943a462022fe5e43c821",
        ),
    ),
)

ENTRIES = (TINY_IMAGENET,)
