"""The cells of a column: from Arrow's arrays to texts, to numbers, and to numbers that stand for names."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from motet.data.dates import days_of
from motet.data.readers.raw import Integers
from motet.data.readers.values import FALSE, LARGEST, MISSING, TRUE, name_of
from motet.data.schema import Order
from motet.errors import MotetError, shown

try:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyarrow import compute, csv, ipc, parquet, types
except ImportError as error:
    from motet.errors import MotetError

    raise MotetError("tables are read by pyarrow, which is not here; install it: pip install pyarrow") from error

__all__ = ["compute", "csv", "ipc", "pa", "parquet", "types"]


# -------- Rows of which nobody knows how many will come


Floats = npt.NDArray[np.float32]
_BLOCK = 2**26  # bytes; a C library gives blocks above 32 MB back when they are freed


class Growing:
    """Rows of floats whose number is not known, kept in blocks so large that the system takes each back at once."""

    def __init__(self, width: int):
        self.width, self.count = width, 0
        self._size = max(1, _BLOCK // (4 * max(1, width)))
        self._blocks: list[Floats] = []
        self._left = 0  # of the last block

    @property
    def bytes(self) -> int:
        """Return how many bytes the rows so far take."""
        return 4 * self.width * self.count

    def next(self, rows: int) -> Floats:
        """Return a view of the next rows, for the caller to fill."""
        if rows > self._left:
            self._shorten_last()
            self._left = max(rows, self._size)
            self._blocks.append(np.empty((self._left, self.width), np.float32))
        start = len(self._blocks[-1]) - self._left
        self._left -= rows
        self.count += rows
        return self._blocks[-1][start : start + rows]

    def joined(self) -> Floats:
        """Return all rows as one array; each block is freed as it is copied, to hold little more than the array."""
        self._shorten_last()
        joined = np.empty((self.count, self.width), np.float32)
        at, blocks = 0, self._blocks[::-1]
        self._blocks = []
        while blocks:
            block = blocks.pop()
            joined[at : at + len(block)] = block
            at += len(block)
        return joined

    def _shorten_last(self) -> None:
        if self._blocks and self._left:
            self._blocks[-1] = self._blocks[-1][: -self._left]
        self._left = 0


# -------- The cells of a column


ColumnKind = Literal["number", "date", "boolean", "category"]


def as_arrow(values: npt.NDArray[np.bool_]) -> Any:
    """Return booleans as an array of Arrow."""

    return pa.array(values)


def are_missing(texts: Any) -> npt.NDArray[np.bool_]:
    """Return which of these texts stand for a missing value."""

    listed = compute.is_in(compute.utf8_trim_whitespace(texts), value_set=pa.array(MISSING))
    found: npt.NDArray[np.bool_] = compute.or_(compute.is_null(texts), listed).to_numpy(zero_copy_only=False)
    return found


def strings(column: Any, name: str, where: str) -> Any:
    """Return a column as text, whatever its type; missing values stay missing."""

    try:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        return compute.cast(column, pa.string())
    except (pa.ArrowException, ValueError, NotImplementedError) as error:
        raise MotetError(
            f"{where}: column {shown(name)} holds {str(column.type)[:40]}; accepted: text, numbers or truths"
        ) from error


def fits(texts: Any, kind: ColumnKind) -> bool:
    """Return whether all texts are numbers, dates or booleans, as a file of CSV writes them."""

    bare = compute.utf8_trim_whitespace(texts)
    if kind == "date":
        try:
            dates(bare, "ymd")
        except ValueError:
            return False
        return True
    if kind == "boolean":
        return bool(
            compute.all(compute.is_in(bare.drop_null(), value_set=pa.array([*TRUE, *FALSE])), min_count=0).as_py()
        )
    try:
        compute.cast(bare, pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def dates(texts: Any, order: Order) -> npt.NDArray[np.float64]:
    """Return a column of texts as days since 2000-01-01, with NaN for what is missing; raise `ValueError` for others.

    Each different text is read once.
    """
    encoded = texts.dictionary_encode()
    words = [text.strip() for text in encoded.dictionary.to_pylist()]
    days = np.array([*(np.nan if word in MISSING else days_of(word, order) for word in words), np.nan])
    found: npt.NDArray[np.float64] = days[encoded.indices.fill_null(len(words)).to_numpy(zero_copy_only=False)]
    return found


def numbers(column: Any, name: str, kind: ColumnKind, where: str) -> npt.NDArray[np.float64]:
    """Return a column as numbers, with NaN for what is missing."""

    try:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if kind == "boolean" and not pa.types.is_boolean(column.type):
            column = compute.cast(column, pa.bool_())
        if pa.types.is_boolean(column.type):
            column = compute.cast(column, pa.int8())
        values: npt.NDArray[np.float64] = compute.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    except (pa.ArrowException, ValueError, NotImplementedError) as error:
        raise MotetError(
            f"{where}: column {shown(name)} holds {str(column.type)[:40]}; accepted: {kind}s, as planned"
        ) from error
    wrong = values[np.abs(values) > LARGEST]
    if len(wrong):
        raise MotetError(
            f"{where}: column {shown(name)} holds {wrong[0]:g}; accepted: numbers of at most {LARGEST:g}, or nothing "
            f"where one is missing"
        )
    return values


# -------- The names in a column of text, as numbers


NO_NAME, MISSING_NAME = -1, -2
"""A name that is not on the list; no name at all."""


class Names:
    """Names and their numbers: a list that grows as names are met, up to `most`, or one that was given and stays."""

    def __init__(self, most: int, given: Sequence[str] | None = None):
        self.numbers = {name: number for number, name in enumerate(given or ())}
        self.most, self.grows = most, given is None
        self.too_many = False
        self.refused: str | None = None
        """The first name that was not on a list that stays."""

    def read(self, texts: Any) -> Integers:
        """Return the number of each text of a column of Arrow; texts that differ by blanks around them are one."""
        encoded = texts.dictionary_encode()
        numbers = [self._number(text) for text in encoded.dictionary.to_pylist()]
        table = np.array([*numbers, MISSING_NAME], np.int64)
        numbered: Integers = table[encoded.indices.fill_null(len(numbers)).to_numpy(zero_copy_only=False)]
        return numbered

    def sorted(self) -> tuple[tuple[str, ...], Integers]:
        """Return the names in order (numbers by value, text by the alphabet) and the new place of each old number."""
        if not self.grows:
            return tuple(self.numbers), np.arange(len(self.numbers))
        names = list(self.numbers)
        order = sorted(range(len(names)), key=lambda i: names[i])
        if all(name.removeprefix("-").isdecimal() and len(name) < 20 for name in names):
            order.sort(key=lambda i: int(names[i]))
        places = np.empty(len(names), np.int64)
        places[order] = np.arange(len(names))
        return tuple(names[i] for i in order), places

    def _number(self, text: str | None) -> int:
        name = None if text is None else name_of(text.strip())
        if name is None or name in MISSING:
            return MISSING_NAME
        if name in self.numbers:
            return self.numbers[name]
        if not self.grows:
            self.refused = self.refused or name
            return NO_NAME
        if len(self.numbers) >= self.most:
            self.too_many = True
            return NO_NAME
        self.numbers[name] = len(self.numbers)
        return self.numbers[name]
