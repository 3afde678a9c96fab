"""Read samples that a user brings to a model, and their labels if there are any, in the form that the model's
preparation takes.

Each form of data is one entry of `READERS`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import numpy as np
import numpy.typing as npt

from motet.config.data_section import Columns
from motet.data import DataSettings, ImagePrepare, Prepare
from motet.data.prepare_table import TablePrepare
from motet.data.prepare_text import TextPrepare
from motet.data.readers.archives import open_box
from motet.data.readers.batches import CSV, PARQUET, Batches, open_table
from motet.data.readers.cells import strings
from motet.data.readers.image_files import SUFFIXES, is_image, read_images
from motet.data.readers.npz import names_in, read_array
from motet.data.readers.raw import Array, Integers
from motet.data.readers.roles import RoleReader, Roles
from motet.data.readers.table import rows_by_schema
from motet.data.readers.values import name_of
from motet.errors import MotetError, shown, unknown
from motet.io.memory_limits import refuse_if_too_large
from motet.io.user_paths import regular_size, shown_path

UTF8 = "utf-8"


@dataclass(frozen=True)
class UserSamples:
    """The contents of a file: samples as it has them, labels as class numbers or names."""

    x: Array
    y: Array | None
    names: Sequence[str] | None = None
    """Of the files that the samples were."""


@dataclass(frozen=True)
class Labels:
    """A request that each sample has one of these classes; in a table, in this column if the schema names none."""

    classes: Sequence[str]
    column: str | None = None


def read_given(path: Path, prepare: Prepare, labels: Labels | None = None, encoding: str = UTF8) -> UserSamples:
    """Return the samples of a file, with `labels` also a label for each; raise a MotetError if it cannot be read.

    `encoding` is that of a CSV file.
    """
    found = (read for endings, read in READERS.items() if path.name.lower().endswith(endings))
    reader = _images if path.is_dir() else next(found, None)
    if reader is None:
        endings = ", ".join(suffix for suffixes in READERS for suffix in suffixes)
        raise MotetError(
            f"{shown_path(path)} is of no form that is read; accepted: a file in {endings}, or a folder of images"
        )
    if reader is not _images:
        try:
            regular_size(path, shown_path(path))
        except OSError as error:
            raise MotetError(f"cannot read {shown_path(path)}: {error.strerror}; accepted: a file") from error
    given = _table(path, prepare, labels, encoding) if reader is _table else reader(path, prepare, labels)
    if not len(given.x):
        raise MotetError(f"{shown_path(path)} holds no samples; accepted: at least one")
    return given


def columns_in(path: Path, encoding: str = UTF8) -> list[str]:
    """Return the names of what a file has beside its samples: columns of a table, arrays of an .npz."""
    name = path.name.lower()
    if path.is_file() and name.endswith((*CSV, *PARQUET)):
        return list(open_table(path, Columns(encoding=encoding)).types)
    return (
        [each for each in names_in(path) if each not in ("x", "y")] if path.is_file() and name.endswith(".npz") else []
    )


def read_columns(path: Path, names: Sequence[str], encoding: str = UTF8) -> dict[str, list[str]]:
    """Return these columns of a file as text, one for each sample; what is missing is an empty text."""
    there = columns_in(path, encoding)
    for name in names:
        if name not in there:
            raise unknown(f"column of {shown_path(path)}", name, there)
    if path.name.lower().endswith(".npz"):
        return {name: [name_of(value) for value in _flat(path, name).tolist()] for name in names}
    table, found = open_table(path, Columns(encoding=encoding)), dict[str, list[str]]({name: [] for name in names})
    as_text = import_module("pyarrow").string()
    for batch in table.read(dict.fromkeys(names, as_text)) if names else ():
        for name in names:
            found[name] += [text or "" for text in strings(batch.column(name), name, table.where).to_pylist()]
    return found


def _flat(path: Path, name: str) -> Array:
    values = read_array(path, name)
    if values.ndim != 1:
        raise MotetError(f"{path}: field {shown(name)} has shape {values.shape}; accepted: one value for each sample")
    return values


def true_numbers(y: Array, where: str) -> npt.NDArray[np.float64]:
    """Return labels that are numbers; raise a `MotetError` for others."""
    try:
        found = y.astype(np.float64)
    except ValueError:
        found = np.array([np.nan])
    if y.ndim != 1 or not np.isfinite(found).all():
        raise MotetError(f"{where} holds labels of type {y.dtype} and shape {y.shape}; accepted: one number each")
    return found


def class_numbers(y: Array, class_names: Sequence[str], where: str) -> Integers:
    """Return labels as class numbers of the model, from names or from numbers."""
    if y.dtype.kind == "U":
        known = {name: number for number, name in enumerate(class_names)}
        wrong = next((label for label in y.tolist() if label not in known), None)
        if wrong is not None:
            some = ", ".join(repr(name) for name in class_names[:5])
            raise MotetError(f"{where} holds label {shown(wrong)}; accepted: a class of the run, such as {some}")
        return np.array([known[label] for label in y.tolist()], dtype=np.int64)
    if y.dtype.kind not in "iu" or y.ndim != 1:
        raise MotetError(
            f"{where} holds labels of type {y.dtype} and shape {y.shape}; accepted: one number or name each"
        )
    outside = y[(y < 0) | (y >= len(class_names))]
    if len(outside):
        raise MotetError(f"{where} holds label {outside[0]}; accepted: 0 to {len(class_names) - 1}")
    return y.astype(np.int64)


def _npz(path: Path, prepare: Prepare, labels: Labels | None) -> UserSamples:
    names = names_in(path)
    for field in ("x", "y") if labels else ("x",):
        if field not in names:
            raise MotetError(f"{path}: field {field!r} is missing; accepted: x, and y where labels are known")
    x, y = read_array(path, "x"), read_array(path, "y") if "y" in names else None
    if not x.ndim or (y is not None and y.shape != (len(x),)):
        raise MotetError(f"{path}: fields x and y have shapes {x.shape} and {shown(y is not None and y.shape)}")
    return UserSamples(x, y)


def _npy(path: Path, prepare: Prepare, labels: Labels | None) -> UserSamples:
    if labels:
        raise MotetError(f"{path} holds samples without labels; accepted: .npz with x and y, or a table")
    refuse_if_too_large(2 * path.stat().st_size, f"{path}", "an array that fits twice")
    try:
        x = np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError, MemoryError) as error:
        reason = shown((str(error).splitlines() or [""])[0])
        raise MotetError(f"{path}: cannot be read as .npy ({reason}); accepted: an array of numbers") from error
    if not isinstance(x, np.ndarray) or not x.ndim:
        raise MotetError(f"{path}: holds no samples; accepted: an array [n, …]")
    return UserSamples(x, None)


def _table(path: Path, prepare: Prepare, labels: Labels | None, encoding: str = UTF8) -> UserSamples:
    if isinstance(prepare, TablePrepare):
        table = open_table(path, Columns(encoding=encoding))
        label = prepare.schema.label
        if labels and label not in table.types:
            raise MotetError(
                f"{table.where}: column {shown(label)}, the label, is missing; accepted: a table with it, and this one "
                f"has {', '.join(map(shown, list(table.types)[:20]))}"
            )
        x, roles = rows_by_schema(table, prepare.schema)
        return UserSamples(x, _labels_of(roles, bool(labels)) if len(x) else None)
    if isinstance(prepare, TextPrepare):
        return _texts(open_table(path, Columns(encoding=encoding)), prepare.column, labels)
    raise MotetError(f"{path} is a table, and this model takes {prepare.input}; accepted: .npz or .npy")


def _labels_of(roles: RoleReader, required: bool) -> Array | None:
    """Return the labels; where they are not required, None if some are missing or of unknown classes."""
    try:
        if roles.roles.label and roles.roles.target == "number":
            return roles.targets()
        return roles.labels_as_listed() if roles.roles.label else None
    except MotetError:
        if required:
            raise
        return None


def _texts(table: Batches, column: str, labels: Labels | None) -> UserSamples:
    """Return one column of texts, and the labels if they are asked for."""
    label, classes = (None, None) if labels is None else (labels.column or "", labels.classes)
    for name, what in ((column, "texts"), (label, "labels")):
        if name is not None and name not in table.types:
            raise unknown(f"column of {what}", name, table.types)
    roles = RoleReader(Roles(label, None, None, table.where, classes))
    as_text = import_module("pyarrow").string()
    texts: list[str] = []
    for batch in table.read(dict.fromkeys([name for name in (column, label) if name is not None], as_text)):
        texts += [text or "" for text in strings(batch.column(column), column, table.where).to_pylist()]
        roles.read(batch)
    x = np.empty(len(texts), object)
    x[:] = texts
    return UserSamples(x, roles.labels_as_listed() if label is not None and len(x) else None)


def _images(path: Path, prepare: Prepare, labels: Labels | None) -> UserSamples:
    """Return image files in the order of their names, in the model's size and colours; a file's folder is its class."""
    if not isinstance(prepare, ImagePrepare):
        raise MotetError(f"{path} is for images, and this model takes {prepare.input}; accepted: {_others()}")
    height, width, channels = prepare.sample_shape
    size = height if height == width else None  # otherwise images keep their size
    with open_box(path) as box:
        files = [file for file in box.files if is_image(file.name)]
        if not files:
            raise MotetError(f"{shown_path(path)}: holds no image; accepted: files of {', '.join(SUFFIXES)}")
        wanted = {"color": "grey" if channels == 1 else "rgb", "size": size}
        images = read_images(box, files, DataSettings.model_validate(wanted))
    around = {len(file.parts) > 1 for file in files} == {True}
    if labels and not around:
        raise MotetError(f"{shown_path(path)}: images are in no folder of a class; accepted: class/file")
    y = np.array([file.parts[-2] for file in files]) if around else None
    return UserSamples(images.x, y, [file.name for file in files])


def _others() -> str:
    return ", ".join(suffix for suffixes in READERS for suffix in suffixes if READERS[suffixes] is not _images)


READERS: dict[tuple[str, ...], Callable[[Path, Prepare, Labels | None], UserSamples]] = {
    (".npz",): _npz,
    (".npy",): _npy,
    (*CSV, *PARQUET): _table,
    (".zip",): _images,
}
