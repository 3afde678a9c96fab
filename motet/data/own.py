"""Bring your own: one .npz with x, y and optionally client, domain and split; or a folder, one file per client."""

import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from motet.data.input import Kind
from motet.data.raw import Array, Integers, RawData, default_net_for, stored_layout
from motet.errors import MotetError

MOST_CLASSES = 65_536
"""A label beyond this is a mistake (an id, a time stamp), and would cost memory everywhere."""

_COLUMNS = ("split", "client", "domain")


@dataclass(frozen=True)
class _Table:
    """The checked content of one file."""

    x: Array
    y: Integers
    kind: Kind
    columns: dict[str, Integers]


def load_own(path: Path) -> RawData:
    """The data of one .npz file, or of a folder with one .npz file per client in the order of their names."""
    return _raw(_read_folder(path) if path.is_dir() else _read_file(path), path)


def _raw(table: _Table, path: Path) -> RawData:
    classes = int(table.y.max()) + 1
    if classes < 2:
        raise MotetError(f"{path}: field 'y' holds only label 0; accepted: at least two classes, 0 and 1")
    split = table.columns.get("split")
    if split is not None and not (split == 0).any():
        raise MotetError(f"{path}: field 'split' holds no 0; accepted: 0 for training rows, 1 for test rows")
    return RawData(
        x=table.x,
        y=table.y,
        kind=table.kind,
        classes=classes,
        top=255 if table.x.dtype == np.uint8 else 1,
        net=default_net_for(table.kind),
        **table.columns,
    )


def _read_folder(folder: Path) -> _Table:
    paths = sorted(folder.glob("*.npz"))
    if not paths:
        raise MotetError(f"{folder}: holds no .npz file; accepted: one .npz file per client")
    tables = [_read_file(path) for path in paths]
    first = tables[0]
    for client, (path, table) in enumerate(zip(paths, tables, strict=True)):
        table.columns["client"] = np.full(len(table.y), client)
        if (table.x.dtype, table.x.shape[1:]) != (first.x.dtype, first.x.shape[1:]):
            raise MotetError(
                f"{path}: field 'x' has {table.x.dtype} samples of stored shape {table.x.shape[1:]}; "
                f"accepted: {first.x.dtype} {first.x.shape[1:]} as in {paths[0].name}"
            )
        for field in _COLUMNS:
            if (field in table.columns) != (field in first.columns):
                raise MotetError(f"{path}: field {field!r} is in some files of the folder; accepted: in all or in none")
    return _Table(
        x=np.concatenate([table.x for table in tables]),
        y=np.concatenate([table.y for table in tables]),
        kind=first.kind,
        columns={field: np.concatenate([table.columns[field] for table in tables]) for field in first.columns},
    )


def _read_file(path: Path) -> _Table:
    arrays = _read_arrays(path)
    for field in ("x", "y"):
        if field not in arrays:
            raise MotetError(f"{path}: field {field!r} is missing; accepted: x, y and optionally {', '.join(_COLUMNS)}")
    x, kind = stored_layout(arrays["x"], str(path))
    if not len(x):
        raise MotetError(f"{path}: field 'x' holds no samples; accepted: at least one")
    columns = {field: _integers(arrays[field], field, len(x), path) for field in arrays if field != "x"}
    y = columns.pop("y")
    _check_range(y, "y", 0, MOST_CLASSES - 1, path)
    if "split" in columns:
        _check_range(columns["split"], "split", 0, 1, path)
    return _Table(x, y, kind, columns)


def _read_arrays(path: Path) -> dict[str, Array]:
    """The known fields of an .npz file; nothing is ever unpickled."""
    try:
        with open(path, "rb") as file, zipfile.ZipFile(file) as archive:
            names = archive.namelist()
    except FileNotFoundError:
        raise MotetError(f"{path}: no such file; accepted: an .npz file or a folder of .npz files") from None
    except (OSError, zipfile.BadZipFile) as error:
        raise MotetError(f"{path}: cannot be read as .npz ({error}); accepted: a complete .npz file") from error
    arrays = {}
    for field in ("x", "y", *_COLUMNS):
        if f"{field}.npy" in names:
            arrays[field] = _read_array(path, field)
    return arrays


def _read_array(path: Path, field: str) -> Array:
    try:
        with np.load(path, allow_pickle=False) as archive:
            array: Array = archive[field]
            return array
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise MotetError(
            f"{path}: field {field!r} holds Python objects or is damaged ({error}); accepted: an array of numbers"
        ) from error


def _integers(values: Array, field: str, length: int, path: Path) -> Integers:
    if values.dtype.kind not in "iu":
        raise MotetError(f"{path}: field {field!r} has dtype {values.dtype}; accepted: integers")
    if values.shape != (length,):
        raise MotetError(f"{path}: field {field!r} has shape {values.shape}; accepted: ({length},) as x has samples")
    return values.astype(np.int64)


def _check_range(values: Integers, field: str, low: int, high: int, path: Path) -> None:
    wrong = values[(values < low) | (values > high)]
    if len(wrong):
        raise MotetError(f"{path}: field {field!r} holds {wrong[0]}; accepted: integers from {low} to {high}")
