"""Bring your own: each kind of file or folder has a reader, and the first that knows a path reads it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from motet.config.data_section import Columns, KindOrAuto, SampleKind
from motet.data.readers import arrays
from motet.data.readers.arrays import COLUMNS, from_arrays
from motet.data.readers.batches import CSV, PARQUET, is_table, open_table
from motet.data.readers.hugging_face import is_hugging_face, load_hugging_face, preview_of_hugging_face
from motet.data.readers.in_memory import called_memory
from motet.data.readers.raw import Preview, RawData
from motet.data.readers.table import raw_of_table
from motet.data.readers.texts import raw_of_texts
from motet.errors import MotetError, shown

__all__ = ["COLUMNS", "READERS", "Reader", "from_arrays", "is_own", "load_own", "preview_of_own"]


@dataclass(frozen=True)
class Reader:
    """A reader of one form of a user's data."""

    forms: tuple[str, ...]
    """As a sentence names them."""
    knows: Callable[[Path], bool]
    """Whether a path is of this form, by its name or by what is in the folder."""
    preview: Callable[[Path, KindOrAuto, Columns], Preview]
    """What its samples are; no more is read than is needed to know."""
    load: Callable[[Path, KindOrAuto, Columns], RawData]


def _load_table(path: Path, kind: KindOrAuto, columns: Columns) -> RawData:
    if _kind_of_table(path, kind, columns) == "tokens":
        return raw_of_texts(open_table(path, columns), columns)
    return raw_of_table(open_table(path, columns), columns)


def _kind_of_table(path: Path, kind: KindOrAuto, columns: Columns) -> SampleKind:
    """Return "tokens" if the user asks for its column of texts, and "vector" for any other table."""
    if kind not in ("auto", "vector", "tokens"):
        raise MotetError(f"data.kind is {shown(kind)}, but {path} is a table; accepted: auto, vector, tokens")
    return "tokens" if kind == "tokens" else "vector"


def _preview_of_table(path: Path, kind: KindOrAuto, columns: Columns) -> Preview:
    return Preview(_kind_of_table(path, kind, columns), clients=columns.client is not None)


TABLE = Reader(("FILE.csv", "FILE.parquet"), is_table, _preview_of_table, _load_table)
HUGGING_FACE = Reader((), is_hugging_face, preview_of_hugging_face, load_hugging_face)
ARRAYS = Reader(("FILE.npz", "FOLDER/"), lambda path: True, arrays.preview_of_arrays, arrays.load_arrays)

READERS: list[Reader] = [TABLE, HUGGING_FACE, ARRAYS]
"""In the order in which they are asked; the last one takes whatever is left, and says what is wrong with it."""


def load_own(path: Path, kind: KindOrAuto = "auto", columns: Columns | None = None) -> RawData:
    """Return the data of a file or folder of the user's."""
    with called_memory(path):
        return _reader(path).load(path, kind, columns or Columns())


def preview_of_own(path: Path, kind: KindOrAuto = "auto", columns: Columns | None = None) -> Preview:
    """Return what the head of such a file or folder says, without reading all of it."""
    with called_memory(path):
        return _reader(path).preview(path, kind, columns or Columns())


def is_own(path: Path) -> bool:
    """Return whether a name is meant as the path of a data file, even if no such file exists."""
    return path.name.lower().endswith((".npz", *CSV, *PARQUET))


def forms() -> list[str]:
    """Return the names of all forms that can be read, for error messages."""
    return [form for reader in READERS for form in reader.forms]


def _reader(path: Path) -> Reader:
    return next(reader for reader in READERS if reader.knows(path))
