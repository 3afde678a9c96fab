"""From the rows of a table to network input: holes filled, numbers scaled, categories as places; whole batches at once.

A stored row has a float per column: a number as it is, a date as days since 2000-01-01, a boolean as 0 or 1, a category
as its place in a list. NaN is a value that is missing, -1 a category that is not in the list.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from motet.config.data_section import SampleKind
from motet.config.section import Section
from motet.data.fit_columns import Fitting, fit_boolean, fit_category, fit_date, fit_number, moments
from motet.data.input import Input
from motet.data.prepare import Normalize, Prepare
from motet.data.readers.raw import Array, Integers
from motet.data.readers.values import stored_rows
from motet.data.schema import BooleanColumn, CategoryColumn, Column, NumberTarget, Order, ScaledColumn, Schema, of_plain
from motet.errors import shown
from motet.io.text import some

_COLUMNS_AT_ONCE = 64


@dataclass(frozen=True, eq=False)
class TablePrepare(Prepare):
    """Numbers, dates and booleans in the order of the schema, then the indicators of those that have one, then the
    places of each category column: its categories, the others, missing."""

    kind: ClassVar[SampleKind] = "vector"
    is_slow: ClassVar[bool] = True

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

    @property
    def target(self) -> NumberTarget | None:
        """Return how the label is scaled where it is a number."""
        return self.schema.target

    def labels(self, y: Tensor) -> Tensor:
        """Return numbers scaled; classes as they are."""
        return y if self.schema.target is None else self.schema.target.scaled(y)

    def saved(self) -> tuple[dict[str, object], dict[str, Tensor]]:
        """Return the schema as JSON can hold it, which makes this preparation again."""
        return {"kind": "table", "schema": self.schema.plain(), "constants": False}, {}

    def __call__(self, stored: Tensor) -> Tensor:
        """Return rows as float32, with missing values filled in."""
        numbers = stored.index_select(1, self._numbers)
        missing = numbers.isnan()
        numbers = torch.where(missing, self._fill, numbers)
        parts = [torch.addcmul(self._shift, numbers, self._scale)]
        if len(self._curved):
            parts[0] = torch.cat([parts[0], self._mapped(numbers)], dim=1).index_select(1, self._order)
        if len(self._indicated):
            parts.append(missing.index_select(1, self._indicated).to(stored.dtype))
        if not len(self._categories):
            return torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]
        codes = stored.index_select(1, self._categories).nan_to_num(nan=-2.0).to(torch.int64)
        places = self._places[self._starts + codes + 2]
        spread = stored.new_zeros(
            stored.shape[0], self._width + 1
        )  # the last place is nobody's; `len` cannot be traced
        return torch.cat([*parts, spread.scatter_(1, places, 1.0)[:, :-1]], dim=1)

    def _mapped(self, numbers: Tensor) -> Tensor:
        """Return the columns that have knots, mapped: each piece adds its slope times the way into it."""
        found = []
        for at in range(0, len(self._curved), _COLUMNS_AT_ONCE):  # a wide table would take too much memory at once
            part = slice(at, at + _COLUMNS_AT_ONCE)
            way = numbers.index_select(1, self._curved[part])[:, :, None] - self._knots[part]
            way = torch.minimum(way.clamp(min=0.0), self._pieces[part])
            found.append((way * self._slopes[part]).sum(dim=2) + self._lowest[part])
        return torch.cat(found, dim=1) if len(found) > 1 else found[0]

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
        return [column.categories for column in self._category_columns]

    # -------- Constants, made once in each process

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the constants, which are made again where it arrives."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def _of(self, *kinds: type[Section]) -> list[int]:
        return [i for i, column in enumerate(self.schema.columns.values()) if isinstance(column, kinds)]

    @cached_property
    def _numbers(self) -> Tensor:
        return torch.tensor(self._of(ScaledColumn, BooleanColumn), dtype=torch.int64)

    @cached_property
    def _categories(self) -> Tensor:
        return torch.tensor(self._of(CategoryColumn), dtype=torch.int64)

    @cached_property
    def _scaled(self) -> list[ScaledColumn | BooleanColumn]:
        """Return the columns that make one number each."""
        return [column for column in self.schema.columns.values() if not isinstance(column, CategoryColumn)]

    def _constants(self) -> list[tuple[float, float, float]]:
        """Scale, shift and fill of each column of numbers."""
        found = []
        for column in self._scaled:
            if isinstance(column, BooleanColumn):
                found.append((1.0, 0.0, float(bool(column.fill))))
            else:
                fill = column.mean if column.fill is None else column.fill
                found.append((1 / column.deviation, -column.mean / column.deviation, fill))
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
    def _indicated(self) -> Tensor:
        """Return which of the numbers have an indicator."""
        return torch.tensor([i for i, column in enumerate(self._scaled) if column.indicator], dtype=torch.int64)

    # Of the numbers that have knots, padded with pieces of no width and no slope

    @cached_property
    def _with_knots(self) -> dict[int, ScaledColumn]:
        return {i: c for i, c in enumerate(self._scaled) if isinstance(c, ScaledColumn) and c.knots}

    @cached_property
    def _curved(self) -> Tensor:
        return torch.tensor(list(self._with_knots), dtype=torch.int64)

    @cached_property
    def _order(self) -> Tensor:
        """Return where each number is once the mapped ones stand behind all of them."""
        places, count = list(self._with_knots), len(self._scaled)
        return torch.tensor([count + places.index(i) if i in places else i for i in range(count)], dtype=torch.int64)

    def _padded(self, rows: list[Tensor]) -> Tensor:
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)

    @cached_property
    def _knots(self) -> Tensor:
        return self._padded([torch.tensor(c.knots[:-1], dtype=torch.float32) for c in self._with_knots.values()])

    @cached_property
    def _pieces(self) -> Tensor:
        """Return how wide the piece above each knot but the last is."""
        return self._padded([torch.tensor(c.knots, dtype=torch.float32).diff() for c in self._with_knots.values()])

    @cached_property
    def _slopes(self) -> Tensor:
        rises = self._padded([torch.tensor(c.levels, dtype=torch.float32).diff() for c in self._with_knots.values()])
        return torch.where(self._pieces > 0, rises / self._pieces, 0.0)

    @cached_property
    def _lowest(self) -> Tensor:
        return torch.tensor([c.levels[0] for c in self._with_knots.values()], dtype=torch.float32)

    # Of the categories

    @cached_property
    def _category_columns(self) -> list[CategoryColumn]:
        return [column for column in self.schema.columns.values() if isinstance(column, CategoryColumn)]

    @cached_property
    def _width(self) -> int:
        return sum(column.width for column in self._category_columns)

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
        for column, listed in zip(self._category_columns, self.lists or self.schema_categories, strict=True):
            place = {name: start + i for i, name in enumerate(column.categories)}
            end = start + len(column.categories)
            other = end if column.other else nobodys
            missing = end + column.other if column.indicator else nobodys
            if column.fill is not None:
                missing = place[column.fill]
            places += [missing, other, *(place.get(name, other) for name in listed)]
            start += column.width
        return torch.tensor(places, dtype=torch.int64)


@dataclass(frozen=True)
class TableColumns:
    """The columns of a table as they are stored, before anything is fitted; numbers have no list."""

    label: str
    classes: tuple[str, ...]
    lists: Mapping[str, tuple[str, ...] | None]
    booleans: frozenset[str] = frozenset()
    dates: Mapping[str, Order] = field(default_factory=dict)
    fitting: Fitting = field(default_factory=Fitting)
    target: Array | None = None
    """The numbers to predict, of all rows."""

    def fit(self, x: Array, normalize: Normalize, rows: Integers) -> TablePrepare:
        """Return the preparation that is fitted on these rows."""
        how = replace(self.fitting, normalize=normalize)
        columns: dict[str, Column] = {}
        for i, (name, listed) in enumerate(self.lists.items()):
            values = x[rows, i]
            if listed is not None:
                columns[name] = fit_category(values, listed, how)
            elif name in self.booleans:
                columns[name] = fit_boolean(values, how)
            elif name in self.dates:
                columns[name] = fit_date(values, how, self.dates[name])
            else:
                columns[name] = fit_number(values, how)
        lists = tuple(listed for listed in self.lists.values() if listed is not None)
        schema = Schema(self.label, self.classes, columns, self._fit_target(rows))
        return TablePrepare((len(self.lists),), schema, lists, min_count=how.min_count)

    def _fit_target(self, rows: Integers) -> NumberTarget | None:
        if self.target is None:
            return None
        mean, deviation = moments(self.target[rows])
        return NumberTarget(mean=mean, deviation=deviation)


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


def _translated(places: Tensor, here: Sequence[str], there: Sequence[str]) -> Tensor:
    """Return places in one list of categories as places in another."""
    index = {name: i for i, name in enumerate(there)}
    table = torch.tensor([float("nan"), -1.0, *(float(index.get(name, -1)) for name in here)])
    return table[places.nan_to_num(nan=-2.0).to(torch.int64) + 2]
