"""From the rows of a table to network input: holes filled, numbers scaled, categories as places; whole batches at once.

A stored row has a float per column: a number as it is, a boolean as 0 or 1, a category as its place in a list. NaN is
a value that is missing, -1 a category that is not in the list.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from motet.config.data_section import SampleKind
from motet.data.input import Input
from motet.data.prepare import Normalize, Prepare
from motet.data.readers.raw import Array, Integers
from motet.data.readers.values import stored_rows
from motet.data.schema import BooleanColumn, CategoryColumn, Column, NumberColumn, Schema, of_plain
from motet.errors import shown
from motet.io.text import some

SMALLEST_DEVIATION = 1e-12
"""Of numbers that are not all the same but for rounding."""
NOBODY = "(none)"
"""The one category of a column in whose list nothing is left."""
_CHUNK = 10_000


@dataclass(frozen=True, eq=False)
class TablePrepare(Prepare):
    """Numbers and booleans in the order of the schema, then the places of its categories."""

    kind: ClassVar[SampleKind] = "vector"

    schema: Schema
    lists: tuple[tuple[str, ...], ...] = ()
    """What stored categories are places in, for each category column; empty: the lists of the schema."""
    given: bool = False
    """Whether the schema was there before the data."""
    min_count: int = 1
    """Training rows that each category was in, at least."""

    @property
    def input(self) -> Input:
        """Return the input, a vector as wide as all columns together."""
        return Input(self.kind, (sum(column.width for column in self.schema.columns.values()),))

    @property
    def hash_extras(self) -> list[object]:
        """Return the schema if it was given, for then it is part of the data; one that was fitted follows from them."""
        return [self.schema.plain()] if self.given else []

    @property
    def notes(self) -> tuple[str, ...]:
        """Return how many categories are unknown because they are rare, never which ones."""
        if self.min_count < 2:
            return ()
        columns = [name for name, column in self.schema.columns.items() if isinstance(column, CategoryColumn)]
        rare = {
            name: len(set(listed) - set(known))
            for name, listed, known in zip(columns, self.lists, self.schema_categories, strict=True)
        }
        found = [f"{count} of {shown(name)}" for name, count in rare.items() if count]
        said = f"categories in fewer than {self.min_count} training rows count as unknown: {some(found)}"
        return (said,) if found else ()

    def saved(self) -> tuple[dict[str, object], dict[str, Tensor]]:
        """Return the schema as JSON can hold it, which makes this preparation again."""
        return {"kind": "table", "schema": self.schema.plain(), "constants": False}, {}

    def __call__(self, stored: Tensor) -> Tensor:
        """Return rows as float32, with missing values filled in."""
        numbers = stored.index_select(1, self._numbers)
        numbers = torch.where(numbers.isnan(), self._fill, numbers)
        numbers = torch.addcmul(self._shift, numbers, self._scale)
        if not len(self._categories):
            return numbers
        codes = stored.index_select(1, self._categories).nan_to_num(nan=-2.0).to(torch.int64)
        places = self._places[self._starts + codes + 2]
        spread = stored.new_zeros(
            stored.shape[0], self._width + 1
        )  # the last place is nobody's; `len` cannot be traced
        return torch.cat([numbers, spread.scatter_(1, places, 1.0)[:, :-1]], dim=1)

    def stored(self, x: Any) -> Tensor:
        """Return rows as stored, from a dictionary or several, a data frame, an Arrow table, or stored rows."""
        rows = torch.from_numpy(stored_rows(x, self.schema))
        if self.lists:
            columns = self._categories.tolist()
            for at, here, there in zip(columns, self.schema_categories, self.lists, strict=True):
                rows[:, at] = _translated(rows[:, at], here, there)
        return rows

    def as_given(self, stored: Tensor) -> Tensor:
        """Categories by their places in the schema's lists."""
        rows = stored.clone()
        for at, here, there in zip(self._categories.tolist(), self.lists, self.schema_categories, strict=False):
            rows[:, at] = _translated(rows[:, at], here, there)
        return rows

    @property
    def schema_categories(self) -> list[tuple[str, ...]]:
        """Return the categories of each category column."""
        return [column.categories for column in self.schema.columns.values() if isinstance(column, CategoryColumn)]

    # -------- Constants, made once in each process

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the constants, which are made again where it arrives."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def _of(self, *kinds: type[Column]) -> list[int]:
        return [i for i, column in enumerate(self.schema.columns.values()) if isinstance(column, kinds)]

    @cached_property
    def _numbers(self) -> Tensor:
        return torch.tensor(self._of(NumberColumn, BooleanColumn), dtype=torch.int64)

    @cached_property
    def _categories(self) -> Tensor:
        return torch.tensor(self._of(CategoryColumn), dtype=torch.int64)

    def _constants(self) -> list[tuple[float, float, float]]:
        """Scale, shift and fill of each column of numbers."""
        found = []
        for column in self.schema.columns.values():
            if isinstance(column, NumberColumn):
                fill = column.mean if column.fill is None else column.fill
                found.append((1 / column.deviation, -column.mean / column.deviation, fill))
            elif isinstance(column, BooleanColumn):
                found.append((1.0, 0.0, float(bool(column.fill))))
        return found

    @cached_property
    def _scale(self) -> Tensor:
        return torch.tensor([scale for scale, _, _ in self._constants()], dtype=torch.float32)

    @cached_property
    def _shift(self) -> Tensor:
        return torch.tensor([shift for _, shift, _ in self._constants()], dtype=torch.float32)

    @cached_property
    def _fill(self) -> Tensor:
        return torch.tensor([fill for _, _, fill in self._constants()], dtype=torch.float32)

    @cached_property
    def _width(self) -> int:
        return sum(map(len, self.schema_categories))

    @cached_property
    def _starts(self) -> Tensor:
        """Return where the part of each category column begins in `_places`."""
        sizes = [len(listed) + 2 for listed in self.lists or self.schema_categories]
        return torch.tensor([0, *sizes[:-1]], dtype=torch.int64).cumsum(0) if sizes else torch.zeros(0)

    @cached_property
    def _places(self) -> Tensor:
        """Return for each category column the place of a missing value, of an unknown one, and of each listed one."""
        places: list[int] = []
        nobodys, start = self._width, 0
        columns = [column for column in self.schema.columns.values() if isinstance(column, CategoryColumn)]
        for column, listed in zip(columns, self.lists or self.schema_categories, strict=True):
            place = {name: start + i for i, name in enumerate(column.categories)}
            missing = nobodys if column.fill is None else place[column.fill]
            places += [missing, nobodys, *(place.get(name, nobodys) for name in listed)]
            start += len(column.categories)
        return torch.tensor(places, dtype=torch.int64)


@dataclass(frozen=True)
class TableColumns:
    """The columns of a table as they are stored, before anything is fitted; numbers have no list."""

    label: str
    classes: tuple[str, ...]
    lists: Mapping[str, tuple[str, ...] | None]
    booleans: frozenset[str] = frozenset()
    min_count: int = 1

    def fit(self, x: Array, normalize: Normalize, rows: Integers) -> TablePrepare:
        """Return the preparation that is fitted on these rows."""
        columns: dict[str, Column] = {}
        for i, (name, listed) in enumerate(self.lists.items()):
            values = x[rows, i]
            if listed is not None:
                columns[name] = _fit_category(values, listed, self.min_count)
            else:
                columns[name] = _fit_boolean(values) if name in self.booleans else _fit_number(values, normalize)
        lists = tuple(listed for listed in self.lists.values() if listed is not None)
        schema = Schema(self.label, self.classes, columns)
        return TablePrepare((len(self.lists),), schema, lists, min_count=self.min_count)


@dataclass(frozen=True)
class GivenSchema:
    """The columns of a table that came with a schema: nothing is fitted."""

    schema: Schema

    def fit(self, x: Array, normalize: Normalize, rows: Integers) -> TablePrepare:
        """Return the preparation of the schema that was given, whatever the rows are."""
        return TablePrepare((len(self.schema.columns),), self.schema, given=True)


def restored_table(words: Mapping[str, Any]) -> TablePrepare:
    """Return the preparation of what `TablePrepare.saved` returned; raise `ValueError` for anything else."""
    schema = of_plain(words["schema"])
    return TablePrepare((len(schema.columns),), schema)


def _fit_number(values: Array, normalize: Normalize) -> NumberColumn:
    mean, deviation = _moments(values)
    if normalize in ("standard", "half"):  # a column has no range to halve
        return NumberColumn(mean=mean, deviation=deviation, fill=mean)
    return NumberColumn(mean=0.0, deviation=1.0, fill=mean)


def _moments(values: Array) -> tuple[float, float]:
    """Mean and deviation of the values that are there, in chunks to spare memory."""
    chunks = [slice(at, at + _CHUNK) for at in range(0, len(values), _CHUNK)]
    there = sum(int(np.count_nonzero(~np.isnan(values[chunk]))) for chunk in chunks)
    if not there:
        return 0.0, 1.0
    mean = sum(float(np.nansum(values[chunk], dtype=np.float64)) for chunk in chunks) / there
    squares = sum(float(np.nansum((values[chunk].astype(np.float64) - mean) ** 2)) for chunk in chunks)
    deviation = float(np.sqrt(squares / there))
    return mean, deviation if deviation > SMALLEST_DEVIATION * max(1.0, abs(mean)) else 1.0


def _fit_boolean(values: Array) -> BooleanColumn:
    return BooleanColumn(fill=bool(np.count_nonzero(values == 1) > np.count_nonzero(values == 0)))


def _fit_category(values: Array, listed: Sequence[str], min_count: int) -> CategoryColumn:
    """Return a column with the categories that enough training rows hold; where there is none, one that stays 0."""
    places, counts = np.unique(values[values >= 0], return_counts=True)
    seen = places[counts >= min_count].astype(np.int64)
    return CategoryColumn(categories=tuple(listed[place] for place in seen) or (NOBODY,))


def _translated(places: Tensor, here: Sequence[str], there: Sequence[str]) -> Tensor:
    """Return places in one list of categories as places in another."""
    index = {name: i for i, name in enumerate(there)}
    table = torch.tensor([float("nan"), -1.0, *(float(index.get(name, -1)) for name in here)])
    return table[places.nan_to_num(nan=-2.0).to(torch.int64) + 2]
