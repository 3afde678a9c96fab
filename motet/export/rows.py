"""Columns of rows that a user has in memory: a data frame, an Arrow table, dictionaries."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from motet.data.readers.raw import Array
from motet.errors import MotetError


def column_names(x: Any) -> list[str]:
    """Return the names of the columns, none if the rows have no names for them."""
    if _is_arrow(x):
        return list(x.column_names)
    if _is_frame(x):
        return [str(name) for name in x.columns]
    if isinstance(x, Mapping):
        return [str(name) for name in x]
    if isinstance(x, list | tuple) and x and all(isinstance(row, Mapping) for row in x):
        return list(dict.fromkeys(str(name) for row in x for name in row))
    return []


def column_of(x: Any, name: str) -> Sequence[object] | None:
    """Return the values of a column, one for each row; None if there is no such column."""
    if name not in column_names(x):
        return None
    if _is_arrow(x):
        return list(x.column(name).to_pylist())
    if _is_frame(x):
        return list(x[next(own for own in x.columns if str(own) == name)].tolist())
    if isinstance(x, Mapping):
        whole = all(isinstance(value, list | tuple | np.ndarray) for value in x.values())
        return list(x[name]) if whole else [x[name]]
    return [row.get(name) for row in x]


def _is_arrow(x: Any) -> bool:
    return hasattr(x, "to_pydict") and hasattr(x, "column_names")


def _is_frame(x: Any) -> bool:
    return hasattr(x, "iloc") and hasattr(x, "columns")


def as_array(values: Any, name: str) -> Array:
    """Return a user's values as an array of one type; raise a `MotetError` that names the argument if they are none."""
    try:
        found: Array = values.numpy(force=True) if isinstance(values, Tensor) else np.asarray(values)
    except (TypeError, ValueError, OverflowError):  # rows of different lengths, or too large numbers
        found = np.empty(0, object)
    if found.dtype.hasobject and found.size and all(isinstance(value, str) for value in found.flat):
        found = found.astype(str)
    if found.dtype.hasobject or not found.ndim:
        raise MotetError(f"{name} is a {type(values).__name__} of mixed values; accepted: an array of one type")
    return found
