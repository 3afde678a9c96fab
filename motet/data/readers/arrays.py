"""Arrays x, y and optionally client, domain and split: in memory, in one .npz, or in a folder with one per client."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from motet.config.data_section import Columns, KindOrAuto, SampleKind
from motet.data.readers.npz import names_in, peek, read_array
from motet.data.readers.raw import (
    MOST_TOKENS,
    Array,
    Integers,
    Preview,
    RawData,
    default_net_for,
    image_sides,
    kind_of,
    stored_layout,
    token_type,
)
from motet.data.readers.roles import refuse_measurements
from motet.errors import MotetError, shown, unknown

MOST_CLASSES = 65_536
"""A label beyond this is a mistake (an id, a time stamp), and would cost memory everywhere."""

MOST_CHARACTERS = 500
"""Of a name; what is longer is a text, not a name."""

NAMED = ("y", "client", "domain")
"""The columns that may hold names instead of numbers."""
COLUMNS = ("split", "client", "domain")
SCALARS = ("kind", "vocabulary")
NAME_LISTS = {"class_names": "y", "client_names": "client", "domain_names": "domain"}
"""Fields that name the numbers 0, 1, … of a column."""


@dataclass(frozen=True)
class _Table:
    """The checked content of one file: columns are int64, or text."""

    x: Array
    kind: SampleKind
    vocabulary: int
    columns: dict[str, Array]
    names: dict[str, tuple[str, ...]]
    """Of the columns whose numbers are named by a field of their own."""


def load_arrays(path: Path, kind: KindOrAuto, columns: Columns) -> RawData:
    """The data of one .npz file, or of a folder with one .npz file per client in the order of their names."""
    if columns.leave_out or columns.schema or columns.written or columns.group or columns.time_column:
        field, value = list(columns.named.items())[-1]
        raise MotetError(f"{field} is {shown(value)}, but {path} holds arrays; accepted: for tables alone")
    if path.is_dir():
        return _read_folder(path, kind, columns)
    return _raw(_table(_read_arrays(path, columns), str(path), kind), str(path), classes_known=columns.classes_known)


def preview_of_arrays(path: Path, kind: KindOrAuto, columns: Columns) -> Preview:
    """Return what such a file or folder holds, reading no more than is needed to know."""
    first = _files(path)[0] if path.is_dir() else path
    names = names_in(first)
    _need("x", names, str(first))
    if kind == "auto" and "kind" in names:
        kind = _word(read_array(first, "kind"), str(first))
    dtype, shape = peek(first, "x")
    found = kind_of(dtype, shape, kind, str(first))
    clients = path.is_dir() or (columns.client or "client") in names
    return Preview(found, image_sides(shape) if found == "image" else (), clients)


def from_arrays(arrays: Mapping[str, npt.ArrayLike], where: str = "data", kind: KindOrAuto = "auto") -> RawData:
    """Data from the arrays that an .npz file would hold; `where` names their origin in errors."""
    return _raw(_table({name: np.asarray(value) for name, value in arrays.items()}, where, kind), where)


def _read_folder(folder: Path, kind: KindOrAuto, columns: Columns) -> RawData:
    paths = _files(folder)
    tables = [_table(_read_arrays(path, columns), str(path), kind) for path in paths]
    for client, (path, table) in enumerate(zip(paths, tables, strict=True)):
        table.columns["client"] = np.full(len(table.x), client)
        _refuse_difference(path, table, tables[0], paths[0].name)
    together = _Table(
        x=np.concatenate([table.x for table in tables]),
        kind=tables[0].kind,
        vocabulary=max(table.vocabulary for table in tables),
        columns={field: np.concatenate([t.columns[field] for t in tables]) for field in tables[0].columns},
        names={
            field: names for field, names in tables[0].names.items() if all(t.names == tables[0].names for t in tables)
        },
    )
    return _raw(together, str(folder), client_names=tuple(path.stem for path in paths))


def _files(folder: Path) -> list[Path]:
    try:
        paths = sorted(folder.glob("*.npz"))
    except OSError as error:
        raise MotetError(f"{folder}: cannot be read ({error.strerror}); accepted: a folder of .npz files") from error
    if not paths:
        raise MotetError(f"{folder}: holds no .npz file; accepted: one .npz file per client")
    return paths


def _refuse_difference(path: Path, table: _Table, first: _Table, name: str) -> None:
    """Files of one folder hold the same fields of the same types."""
    if (table.kind, table.x.dtype, table.x.shape[1:]) != (first.kind, first.x.dtype, first.x.shape[1:]):
        raise MotetError(
            f"{path}: field 'x' has {table.x.dtype} samples of stored shape {table.x.shape[1:]}; "
            f"accepted: {first.x.dtype} {first.x.shape[1:]} as in {name}"
        )
    for field in ("y", *COLUMNS):
        if (field in table.columns) != (field in first.columns):
            raise MotetError(f"{path}: field {field!r} is in some files of the folder; accepted: in all or in none")
        if field in first.columns and table.columns[field].dtype.kind != first.columns[field].dtype.kind:
            raise MotetError(f"{path}: field {field!r} holds numbers in one file and text in another; accepted: one")


def _table(arrays: Mapping[str, Array], where: str, kind: KindOrAuto) -> _Table:
    for field in ("x", "y"):
        _need(field, arrays, where)
    if kind == "auto" and "kind" in arrays:
        kind = _word(arrays["kind"], where)
    x, found = stored_layout(arrays["x"], where, kind)
    if not len(x):
        raise MotetError(f"{where}: field 'x' holds no samples; accepted: at least one")
    columns = {field: _column(arrays[field], field, len(x), where) for field in ("y", *COLUMNS) if field in arrays}
    if columns["y"].dtype.kind == "i":
        _check_range(columns["y"], "y", 0, MOST_CLASSES - 1, where)
    if "split" in columns:
        _check_range(columns["split"], "split", 0, 1, where)
    names = {
        of: _names(arrays[field], field, columns.get(of), where) for field, of in NAME_LISTS.items() if field in arrays
    }
    return _Table(x, found, _vocabulary(arrays, x, found, where), columns, names)


def _raw(table: _Table, where: str, client_names: tuple[str, ...] = (), classes_known: bool = False) -> RawData:
    numbers: dict[str, Any] = dict(table.columns)
    names = dict[str, tuple[str, ...]]()
    for field in NAMED:
        if field in numbers:
            numbers[field], found = _coded(numbers[field], field, where)
            names[field] = found or table.names.get(field, ())
    y = numbers["y"]
    classes = len(names["y"]) or int(y.max()) + 1
    if classes < 2:
        only = shown(names["y"][0]) if names["y"] else "0"
        raise MotetError(f"{where}: field 'y' holds only label {only}; accepted: at least two classes, such as 0 and 1")
    if classes > MOST_CLASSES:
        raise MotetError(f"{where}: field 'y' holds {classes} different names; accepted: at most {MOST_CLASSES}")
    if "client" in numbers and len(np.unique(numbers["client"])) < 2:
        raise MotetError(f"{where}: names only one client; accepted: at least two, or no field 'client'")
    if not classes_known and "y" not in table.names:  # who names classes means them
        present = names["y"] or tuple(map(str, np.unique(y).tolist()))
        refuse_measurements(present, len(y), f"{where}: field 'y'")
    if "split" in numbers and not (numbers["split"] == 0).any():
        raise MotetError(f"{where}: field 'split' holds no 0; accepted: 0 for training rows, 1 for test rows")
    return RawData(
        x=table.x.astype(token_type(table.vocabulary)) if table.kind == "tokens" else table.x,
        y=y,
        kind=table.kind,
        classes=classes,
        top=255 if table.x.dtype == np.uint8 else 1,
        net=default_net_for(table.kind, table.x.shape[1:]),
        vocabulary=table.vocabulary,
        class_names=names["y"],
        client_names=client_names or names.get("client", ()),
        domain_names=names.get("domain", ()),
        split=numbers.get("split"),
        client=numbers.get("client"),
        domain=numbers.get("domain"),
    )


def _coded(values: Array, field: str, where: str) -> tuple[Integers, tuple[str, ...]]:
    """Text as the numbers of its names in sorted order; numbers stay as they are and have no names."""
    if values.dtype.kind != "U":
        return values, ()
    found, numbers = np.unique(values, return_inverse=True)
    try:
        names = tuple(map(str, found))
        "".join(names).encode()
    except (ValueError, SystemError):  # numbers that are no characters, or half of one
        raise MotetError(f"{where}: field {field!r} holds text that is none; accepted: names in Unicode") from None
    longest = max(names, key=len)
    if len(longest) > MOST_CHARACTERS:
        raise MotetError(
            f"{where}: field {field!r} holds a name of {len(longest)} characters; accepted: at most {MOST_CHARACTERS}"
        )
    return numbers.astype(np.int64), names


def _names(values: Array, field: str, column: Array | None, where: str) -> tuple[str, ...]:
    """A name for each number of a column, from 0 on."""
    if values.ndim != 1 or values.dtype.kind != "U":
        raise MotetError(
            f"{where}: field {field!r} has dtype {values.dtype} and shape {values.shape}; accepted: a list of names as "
            f"NumPy's str type"
        )
    if column is None or column.dtype.kind == "U":
        raise MotetError(
            f"{where}: field {field!r} names numbers that are not there; accepted: it beside whole numbers"
        )
    if not column.min() >= 0 or column.max() >= len(values) or len(values) > MOST_CLASSES:
        raise MotetError(
            f"{where}: field {field!r} has {len(values)} names for numbers from {column.min()} to {column.max()}; "
            f"accepted: a name for each, from 0 on"
        )
    _, names = _coded(values, field, where)
    if len(names) < len(values):
        raise MotetError(f"{where}: field {field!r} has a name twice; accepted: each once")
    return tuple(map(str, values))


def _read_arrays(path: Path, columns: Columns) -> dict[str, Array]:
    """The known fields of an .npz file; some may have other names in it."""
    names = names_in(path)
    called = {"y": columns.label, "client": columns.client, "domain": columns.domain}
    for field, name in called.items():
        if name is not None and name not in names:
            raise unknown(f"field (data.{'label' if field == 'y' else field})", name, names)
    places = {field: called.get(field) or field for field in ("x", "y", *COLUMNS, *SCALARS, *NAME_LISTS)}
    return {field: read_array(path, place) for field, place in places.items() if place in names}


def _need(field: str, names: Mapping[str, Any] | list[str], where: str) -> None:
    if field not in names:
        accepted = f"x, y and optionally {', '.join((*COLUMNS, *SCALARS))}"
        raise MotetError(f"{where}: field {field!r} is missing; accepted: {accepted}")


def _word(value: Array, where: str) -> KindOrAuto:
    """The field `kind`, which `kind_of` then looks at."""
    if value.shape or value.dtype.kind != "U":
        raise MotetError(f"{where}: field 'kind' has dtype {value.dtype} and shape {value.shape}; accepted: one word")
    try:
        word: KindOrAuto = str(value)  # type: ignore[assignment]
    except (ValueError, SystemError):
        raise MotetError(f"{where}: field 'kind' holds text that is none; accepted: one word") from None
    return word


def _vocabulary(arrays: Mapping[str, Array], x: Array, kind: SampleKind, where: str) -> int:
    given = arrays.get("vocabulary")
    if kind != "tokens":
        if given is not None:
            raise MotetError(f"{where}: field 'vocabulary' is for tokens, not for {kind}; accepted: data.kind = tokens")
        return 0
    needed = int(x.max()) + 1
    if given is None:
        return needed
    if given.shape or given.dtype.kind not in "iu" or not needed <= given <= MOST_TOKENS:
        raise MotetError(
            f"{where}: field 'vocabulary' is {shown(given.tolist())}; "
            f"accepted: one whole number from {needed} to {MOST_TOKENS}"
        )
    return int(given)


def _column(values: Array, field: str, length: int, where: str) -> Array:
    named = field in NAMED
    if values.dtype.kind not in ("iuU" if named else "iu"):
        accepted = "integers, or names as NumPy's str type" if named else "integers"
        raise MotetError(f"{where}: field {field!r} has dtype {values.dtype}; accepted: {accepted}")
    if values.shape != (length,):
        raise MotetError(f"{where}: field {field!r} has shape {values.shape}; accepted: ({length},) as x has samples")
    if values.dtype.kind == "u" and len(values) and values.max() > np.iinfo(np.int64).max:
        raise MotetError(
            f"{where}: field {field!r} holds {values.max()}; accepted: whole numbers of 64 bits with a sign"
        )
    return values if values.dtype.kind == "U" else values.astype(np.int64)


def _check_range(values: Integers, field: str, low: int, high: int, where: str) -> None:
    wrong = values[(values < low) | (values > high)]
    if len(wrong):
        raise MotetError(f"{where}: field {field!r} holds {wrong[0]}; accepted: integers from {low} to {high}")
