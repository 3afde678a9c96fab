"""Rows of a table as a user has them, turned into stored rows by a schema, with a sentence about what does not fit."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from motet.data.dates import days_of_value
from motet.data.schema import BooleanColumn, CategoryColumn, Column, DateColumn, Order, Schema
from motet.errors import MotetError, shown

MISSING = (
    *("", "?", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "N/A", "NA"),
    *("NULL", "NaN", "n/a", "nan", "null", "None"),
)
"""What stands in a file for a value that is not there."""
TRUE, FALSE = ("true", "True", "TRUE"), ("false", "False", "FALSE")
LARGEST = 1e20
"""Of numbers, so that squares and sums of them stay numbers."""
UNKNOWN = -1.0
"""The place of a category that is in no list."""

Floats = npt.NDArray[np.float32]
_ACCEPTED = "a dictionary by column, a list of such, a data frame, an Arrow table, or rows with {} columns in order"


def stored_rows(x: Any, schema: Schema) -> Floats:
    """Return one stored row for each row that the user gives."""
    if isinstance(x, Tensor):
        x = x.numpy(force=True)
    if isinstance(x, np.ndarray) and x.dtype.kind == "c":
        raise MotetError(f"input x has dtype {x.dtype}; accepted: real numbers")
    if isinstance(x, np.ndarray) and x.dtype.kind in "biuf":
        return _checked_array(x, schema)
    columns = _columns(x, schema)
    lengths = {len(values) for values in columns.values()}
    if len(lengths) > 1:
        raise MotetError(f"input x has columns of {min(lengths)} and of {max(lengths)} rows; accepted: all as long")
    made = [[_reader(name, column)(value) for value in columns[name]] for name, column in schema.columns.items()]
    return np.array(made, np.float32).T.copy()


def name_of(value: object) -> str:
    """A class, client or category as text: 2 and 2.0 are the same one, true is what a file calls it."""
    if isinstance(value, bool | np.bool_):
        return str(bool(value)).lower()
    text = str(value)
    whole = re.fullmatch(r"(-?\d+)\.0+", text)
    return whole[1] if whole else text


def _columns(x: Any, schema: Schema) -> dict[str, Sequence[Any]]:
    """Return the values of the schema's columns, as lists."""
    if hasattr(x, "to_pydict"):  # Arrow
        return _taken(x.column_names, lambda name: x.column(name).to_pylist(), schema)
    if hasattr(x, "iloc") and hasattr(x, "columns"):  # pandas
        names = {str(name): name for name in x.columns}
        return _taken(names, lambda name: x[names[name]].tolist(), schema)
    if hasattr(x, "iloc") and hasattr(x, "to_dict"):  # one row of pandas'
        x = x.to_dict()
    if isinstance(x, Mapping):
        whole = all(isinstance(value, list | tuple | np.ndarray) for value in x.values())
        return _taken(x, lambda name: list(x[name]) if whole else [x[name]], schema)
    rows = list(x) if isinstance(x, list | tuple | np.ndarray) else None
    if rows and all(isinstance(row, Mapping) for row in rows):
        for row in rows:
            _need(row, schema)
        return {name: [row[name] for row in rows] for name in schema.columns}
    if rows and all(isinstance(row, list | tuple | np.ndarray) and len(row) == len(schema.columns) for row in rows):
        return {name: [row[i] for row in rows] for i, name in enumerate(schema.columns)}
    raise MotetError(f"input x is {shown(x)}; accepted: {_ACCEPTED.format(len(schema.columns))}")


def _taken(names: Any, column: Callable[[str], Sequence[Any]], schema: Schema) -> dict[str, Sequence[Any]]:
    _need(names, schema)
    return {name: column(name) for name in schema.columns}


def _need(names: Any, schema: Schema) -> None:
    lacking = [name for name in schema.columns if name not in names]
    if lacking:
        raise MotetError(
            f"input x has no column {shown(lacking[0])}; accepted: rows with {', '.join(map(shown, schema.columns))} "
            f"(None where a value is missing)"
        )


def _reader(name: str, column: Column) -> Callable[[Any], float]:
    if isinstance(column, CategoryColumn):
        places = {category: float(place) for place, category in enumerate(column.categories)}
        return lambda value: math.nan if _is_missing(value) else places.get(name_of(value), UNKNOWN)
    if isinstance(column, DateColumn):
        return lambda value: math.nan if _is_missing(value) else _date(name, value, column.order)
    read = _boolean if isinstance(column, BooleanColumn) else _number
    return lambda value: math.nan if _is_missing(value) else read(name, value)


def _is_missing(value: Any) -> bool:
    if isinstance(value, str):
        return value.strip() in MISSING
    return value is None or value != value or str(value) in ("<NA>", "NaT")  # pandas has words of its own


def _number(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.inf
    if not abs(number) <= LARGEST:
        raise MotetError(
            f"input x: column {shown(name)} is {shown(value)}; accepted: a number of at most {LARGEST:g}, or None"
        )
    return number


def _date(name: str, value: Any, order: Order) -> float:
    try:
        days = days_of_value(value, order)
    except (TypeError, ValueError, OverflowError):
        days = math.inf
    if not abs(days) <= LARGEST:
        raise MotetError(
            f"input x: column {shown(name)} is {shown(value)}; accepted: a date such as 2020-12-31, in the order "
            f"{order} of the schema, or None"
        )
    return days


def _boolean(name: str, value: Any) -> float:
    text = str(value).strip()
    if text in (*TRUE, "1", "1.0"):
        return 1.0
    if text in (*FALSE, "0", "0.0"):
        return 0.0
    raise MotetError(f"input x: column {shown(name)} is {shown(value)}; accepted: true, false or None")


def _checked_array(x: npt.NDArray[Any], schema: Schema) -> Floats:
    """Return rows that are stored already; raise a `MotetError` for a number or a place that cannot be."""
    if x.ndim != 2 or x.shape[1] != len(schema.columns):
        shape = ", ".join(["n", *map(str, x.shape[1:])])
        raise MotetError(f"input x has shape ({shape}); accepted: {_ACCEPTED.format(len(schema.columns))}")
    rows = x.astype(np.float32)
    for i, (name, column) in enumerate(schema.columns.items()):
        values = rows[:, i][~np.isnan(rows[:, i])]
        if isinstance(column, CategoryColumn):
            wrong = values[(values < UNKNOWN) | (values >= len(column.categories)) | (values % 1 != 0)]
            accepted = f"the place of a category, 0 to {len(column.categories) - 1}, -1 or NaN"
        else:
            wrong, accepted = values[~(np.abs(values) <= LARGEST)], f"a number of at most {LARGEST:g}, or NaN"
        if len(wrong):
            raise MotetError(f"input x: column {shown(name)} is {wrong[0]:g}; accepted: {accepted}")
    return rows
