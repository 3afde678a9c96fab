"""agnews: news in four classes, from one .csv with split, label and text, or the official two."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from motet.config.data_section import DataSettings
from motet.data.prepare_text import word_tokens
from motet.data.readers.leaf import lines_of, rows_of
from motet.data.readers.raw import RawData
from motet.data.sources.source import Form, Source
from motet.errors import MotetError, shown
from motet.io.user_paths import shown_path

CLASSES = ("World", "Sports", "Business", "Sci/Tech")
VOCABULARY = 2**15
LENGTH = 200
"""Words of a text that count; the longest of the data set have about as many."""
_OFFICIAL = ["Class Index", "Title", "Description"]


@dataclass(frozen=True)
class _Text:
    words: str
    label: int
    split: int


def one_file(paths: Sequence[Path], settings: DataSettings) -> RawData:
    """Columns split (train or test), label (0 to 3) and text."""
    path = paths[0]
    texts = []
    for row in rows_of(path, ("split", "label", "text")):
        if row["split"] not in ("train", "test"):
            raise MotetError(f"{shown_path(path)}: split is {shown(row['split'])}; accepted: train or test")
        texts.append(_Text(row["text"], _label(row["label"], 0, path), int(row["split"] == "test")))
    return _raw(texts, path)


def two_files(paths: Sequence[Path], settings: DataSettings) -> RawData:
    """train.csv and test.csv with class (1 to 4), title and description, under column names or not."""
    texts = []
    for split, path in enumerate(paths):
        for number, row in enumerate(lines_of(path), 1):
            if number == 1 and row == _OFFICIAL:
                continue
            if len(row) != len(_OFFICIAL):
                raise MotetError(
                    f"{shown_path(path)}: row {number} has {len(row)} cells; accepted: class, title and description"
                )
            texts.append(_Text(f"{row[1]} . {row[2]}", _label(row[0], 1, path), split))
    return _raw(texts, paths[0])


def _label(text: str, first: int, path: Path) -> int:
    known = [str(number) for number in range(first, first + len(CLASSES))]
    if text not in known:
        raise MotetError(f"{shown_path(path)}: a label is {shown(text)}; accepted: {', '.join(known)}")
    return known.index(text)


def _raw(texts: Sequence[_Text], path: Path) -> RawData:
    split = np.array([text.split for text in texts], np.int64)
    training = np.flatnonzero(split == 0)
    if not len(training):
        raise MotetError(f"{shown_path(path)}: holds no training rows; accepted: at least one")
    x, tokenizer = word_tokens([text.words for text in texts], VOCABULARY, LENGTH, training.tolist())
    return RawData(
        x=x,
        y=np.array([text.label for text in texts], np.int64),
        kind="tokens",
        classes=len(CLASSES),
        top=1,
        net="fasttext",
        split=split if split.any() else None,
        vocabulary=tokenizer.vocabulary,
        class_names=CLASSES,
    )


AGNEWS = Source(
    name="agnews",
    summary="AG News: 120,000 + 7,600 titles and descriptions of news as words, 4 classes",
    paper="Zhang, Zhao and LeCun, Character-level Convolutional Networks for Text Classification, NIPS 2015",
    licence="research use, not commercial, as AG's corpus says",
    net="fasttext",
    forms=(
        *(Form((name,), one_file) for name in ("agnews.csv.gz", "agnews.csv")),
        *(
            Form((f"{folder}train.csv{end}", f"{folder}test.csv{end}"), two_files, own_folder=not folder)
            for folder in ("ag_news_csv/", "")
            for end in ("", ".gz")
        ),
    ),
    samples=127_600,
    folders=("ag_news",),
    where="its makers' ag_news_csv with train.csv and test.csv, given out without a checksum",
)

ENTRIES = (AGNEWS,)
