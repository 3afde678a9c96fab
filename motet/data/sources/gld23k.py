"""gld23k: photographs of landmarks by who took them: lists of users and a folder of images."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from motet.config.data_section import IMAGE_FIELDS, DataSettings
from motet.data.readers.archives import ListedFile, open_box
from motet.data.readers.image_files import read_images
from motet.data.readers.image_folder import coded
from motet.data.readers.leaf import rows_of
from motet.data.readers.raw import RawData
from motet.data.sources.source import Form, Source
from motet.errors import MotetError, shown

SIZE = 64
"""Pixels, where `data.size` says nothing: the files have all sizes."""
MOST_CLASSES = 65_536


def read(paths: Sequence[Path], settings: DataSettings) -> RawData:
    """A list of training images (user_id, image_id, class), one of test images (image_id, class), and images/."""
    training, test, images = paths
    rows = [(row, 0) for row in rows_of(training, ("user_id", "image_id", "class"))]
    rows += [(row, 1) for row in rows_of(test, ("image_id", "class"))]
    with open_box(images) as box:
        by_id = {Path(file.parts[-1]).stem: file for file in box.files}
        pictures = read_images(box, [_image(row["image_id"], by_id, images) for row, _ in rows], settings, SIZE)
    kept = [each for each, left in zip(rows, pictures.kept, strict=True) if left]
    y = np.array([_class(row["class"], training if split == 0 else test) for row, split in kept], np.int64)
    # Nobody took the test images: they are in the common test set alone, where nobody asks whose they are.
    users, names = coded([row.get("user_id", "") if split == 0 else "" for row, split in kept])
    return RawData(
        x=pictures.x,
        y=y,
        kind="image",
        classes=int(y.max()) + 1,
        top=255,
        net="cnn4",
        split=np.array([split for _, split in kept], np.int64),
        client=users,
        client_names=tuple(name or "nobody" for name in names),
        notes=pictures.notes,
    )


def _image(name: str, by_id: dict[str, ListedFile], where: Path) -> ListedFile:
    if name not in by_id:
        raise MotetError(f"{where}: holds no image {shown(name)}; accepted: a file for each image_id of the lists")
    return by_id[name]


def _class(text: str, where: Path) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) >= MOST_CLASSES:
        raise MotetError(f"{where}: class is {shown(text)}; accepted: whole numbers from 0 to {MOST_CLASSES - 1}")
    return int(text)


GLD23K = Source(
    name="gld23k",
    summary="Google Landmarks, the small split by users: 23,080 training photographs of 203 landmarks by 233 authors, "
    "in colour, resized to 64x64 unless data.size says otherwise",
    paper="Hsu, Qi and Brown, Federated Visual Classification with Real-World Data Distribution, ECCV 2020",
    licence="of each photograph its own (CC BY and CC0); annotations CC BY 4.0",
    net="cnn4",
    obeys=IMAGE_FIELDS,
    forms=(
        Form(("mini_gld_train_split.csv", "mini_gld_test.csv", "images"), read, clients=True),
        Form(
            ("data_user_dict/gld23k_user_dict_train.csv", "data_user_dict/gld23k_user_dict_test.csv", "images"),
            read,
            clients=True,
        ),
    ),
    folders=("gld", "Landmarks", "landmarks"),
    where="the lists of TensorFlow Federated, and their images of the Google Landmarks Dataset v2 as images/ID.jpg",
)

ENTRIES = (GLD23K,)
