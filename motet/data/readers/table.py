"""A table of numbers, booleans and categories, with a label: from record batches to stored rows."""

from collections.abc import Mapping
from itertools import groupby
from typing import Any

import numpy as np

from motet.config.data_section import Columns
from motet.data.dates import days_of_arrow, order_of
from motet.data.prepare_table import GivenSchema, TableColumns
from motet.data.readers.batches import Batches, OtherType, RecordBatch
from motet.data.readers.cells import (
    MISSING_NAME,
    Floats,
    Growing,
    Names,
    dates,
    fits,
    numbers,
    strings,
)
from motet.data.readers.hints import leaks, may_name_clients
from motet.data.readers.notation import Notation, is_number, is_plain, notation_of
from motet.data.readers.raw import Integers, RawData, default_net_for
from motet.data.readers.roles import FEW, Numbering, RoleReader, Roles
from motet.data.readers.table_plan import TablePlan, label_of_schema, plan_by_schema, plan_of
from motet.data.schema import CategoryColumn, Column, Order, ScaledColumn, Schema, read_schema
from motet.errors import MotetError, shown
from motet.io.memory_limits import refuse_if_too_large
from motet.io.text import some

MOST_CATEGORIES = 256
"""Different texts of a column that may be categories without a schema that lists them."""
MOST_DEVIATIONS = 1e9
"""From the mean that a schema gives."""
MANY = 50
"""Rows of which all different whole numbers are an id rather than a measurement."""
MOST_REASONS = 8
"""Of columns that are left out; the others are counted."""


def raw_of_table(table: Batches, columns: Columns, usual_label: str | None = None) -> RawData:
    """Return the data of a table: rows of floats, labels, clients, and notes about what was left out."""
    schema = None if columns.schema is None else read_schema(columns.schema)
    reading, rows = _walked(table, plan_of(table, columns, schema, usual_label))
    return reading.finished(rows)


def rows_by_schema(table: Batches, schema: Schema) -> tuple[Floats, RoleReader]:
    """Stored rows of a table that a schema describes, and who reads its labels if it has their column."""
    label = schema.label if schema.label in table.types else None
    roles = Roles(label, None, None, table.where, **label_of_schema(schema))
    reading, rows = _walked(
        table, plan_by_schema(schema, roles, {name for name in table.types if name != label}, table)
    )
    for i, (name, column) in enumerate(schema.columns.items()):
        reading.refuse_far(rows[:, i], name, column)
    return rows, reading.roles


def _walked(table: Batches, plan: "TablePlan") -> tuple["_Reading", Floats]:
    """Return the reading and all rows, after as few passes as it takes to know what each column holds."""
    while True:
        reading = _Reading(table, plan)
        try:
            rows = reading.rows()
        except OtherType as found:
            plan = plan.otherwise(_unlike(table, plan, found.column))
            continue
        written, dated = reading.notations(), reading.orders()
        if not written and not dated:
            return reading, rows
        plan = plan.written(written, dated)
        del reading, rows  # before as many are read again


def _unlike(table: Batches, plan: "TablePlan", first: str) -> dict[str, list[str]]:
    """Return every column that holds another type than planned, with some of its texts, found in one pass."""
    from motet.data.readers.cells import pa

    types = plan.types() | {name: pa.string() for name, kind in plan.kinds.items() if kind != "category"}
    found: dict[str, Names] = {first: Names(MOST_CATEGORIES)}
    for batch in table.read(types):
        for name, kind in plan.kinds.items():
            if name != first and (kind == "category" or name in plan.notations or name in plan.orders):
                continue
            texts = strings(batch.column(name), name, table.where)
            if name not in found and not fits(texts, kind):
                found[name] = Names(MOST_CATEGORIES)
            if name in found:
                found[name].read(texts)
    return {name: list(names.numbers) for name, names in found.items()}


# -------- The rows


class _Reading:
    """One pass through a table by a plan."""

    def __init__(self, table: Batches, plan: TablePlan):
        self.table, self.plan = table, plan
        self.roles = RoleReader(plan.roles)
        self.categories = {name: self._names(name) for name, kind in plan.kinds.items() if kind == "category"}
        self.numbering = {name: Numbering(name) for name, kind in plan.kinds.items() if kind == "number"}

    def _names(self, column: str) -> Names:
        known = self.plan.schema.columns[column] if self.plan.schema else None
        return Names(MOST_CATEGORIES, known.categories if isinstance(known, CategoryColumn) else None)

    def rows(self) -> Floats:
        """Read all batches and return the rows as floats."""
        rows, checked = Growing(len(self.plan.kinds)), 0
        for batch in self.table.read(self.plan.types()):
            kept = self.roles.read(batch)
            self._fill(rows.next(kept.num_rows), kept)
            if rows.bytes > 2 * checked:
                checked = rows.bytes
                refuse_if_too_large(checked, self.table.where, "a table that fits twice")
        return rows.joined()

    def notations(self) -> dict[str, Notation]:
        """Return the columns of texts that are numbers after all; to be called after the last row."""
        if self.plan.schema is not None:
            return {}
        found = {
            name: notation_of(names.numbers, self.plan.decimal, name, self.table.where)
            for name, names in self.categories.items()
            if name not in self.plan.settled
        }
        return {name: notation for name, notation in found.items() if notation is not None}

    def orders(self) -> dict[str, Order]:
        """Return the columns of texts that are dates after all; to be called after the last row."""
        if self.plan.schema is not None:
            return {}
        found = {
            name: order_of(names.numbers, self.plan.dates, name, self.table.where)
            for name, names in self.categories.items()
            if name not in self.plan.settled
        }
        return {name: order for name, order in found.items() if order is not None}

    def _fill(self, block: Floats, batch: RecordBatch) -> None:
        """Fill a block with the rows of a batch as floats; what is missing is NaN."""
        for i, (name, kind) in enumerate(self.plan.kinds.items()):
            column = batch.column(name)
            if kind == "category":
                places = self.categories[name].read(strings(column, name, self.table.where))
                block[:, i] = np.where(places == MISSING_NAME, np.nan, places)
                continue
            if kind == "date":
                block[:, i] = self._as_days(column, name)
                continue
            if name in self.plan.notations:
                column = self._as_numbers(strings(column, name, self.table.where), name)
            values = numbers(column, name, kind, self.table.where)
            if kind == "number":
                self.numbering[name].see(values)
            block[:, i] = values

    def _as_days(self, column: Any, name: str) -> Any:
        from motet.data.readers.cells import types as is_type

        if is_type.is_date(column.type) or is_type.is_timestamp(column.type):
            return days_of_arrow(column)
        try:
            return dates(strings(column, name, self.table.where), self.plan.orders.get(name, "ymd"))
        except ValueError:
            raise OtherType(name) from None

    def _as_numbers(self, texts: Any, column: str) -> Any:
        try:
            return self.plan.notations[column].numbers(texts)
        except ValueError:  # Arrow's own are such too
            raise OtherType(column) from None

    def finished(self, x: Floats) -> RawData:
        """Return the data without columns that teach nothing, and with categories in the order of their names."""
        fields = self.roles.fields(numbers=True)
        notes, mixed = dict(self.plan.notes), []
        keep, lists = [], dict[str, tuple[str, ...] | None]()
        for i, (name, kind) in enumerate(self.plan.kinds.items()):
            why = None if self.plan.schema else self._useless(x[:, i], name)
            if why:
                notes[name] = why
                continue
            keep.append(i)
            lists[name] = None
            if self.plan.schema:
                self.refuse_far(x[:, i], name, self.plan.schema.columns[name])
            if kind == "category":
                lists[name], places = self.categories[name].sorted()
                _put_in_order(x[:, i], places)
                mixed += [] if self.plan.schema else _mixed(name, lists[name] or ())
        if not keep:
            raise MotetError(
                f"{self.table.where}: no column is left to learn from ({_reasons(notes) or 'there is none besides'}); "
                f"accepted: at least one"
            )
        x = x if len(keep) == x.shape[1] else x[:, keep]
        booleans = frozenset(name for name, kind in self.plan.kinds.items() if kind == "boolean")
        label = str(self.plan.roles.label)
        dated = {n: self.plan.orders.get(n, "ymd") for n, kind in self.plan.kinds.items() if kind == "date"}
        target = fields.get("target")
        before = TableColumns(label, fields["class_names"], lists, booleans, dated, self.plan.fitting, target)
        return RawData(
            x=x,
            kind="vector",
            top=1,
            net=default_net_for("vector"),
            fit=GivenSchema(self.plan.schema).fit if self.plan.schema else before.fit,
            notes=(
                *self.roles.notes,
                *([f"left out: {_reasons(notes)}"] if notes else []),
                *_said(self.plan.notations),
                *([] if self.plan.schema else _said_of_dates([name for name in lists if name in dated], dated)),
                *mixed[:MOST_REASONS],
                *([f"so are {len(mixed) - MOST_REASONS} more columns"] if len(mixed) > MOST_REASONS else []),
                *leaks(x, lists, fields["y"], self._ids(x, list(lists))),
            ),
            may_name_clients=None if self.plan.roles.client else may_name_clients(list(lists), x, list(notes)),
            **fields,
        )

    def refuse_far(self, values: Floats, name: str, column: Column) -> None:
        """A mean and deviation that are not of these numbers make input that no net can compute with."""
        if not isinstance(column, ScaledColumn) or not len(values) or np.isnan(values).all():
            return
        for value in (float(np.nanmin(values)), float(np.nanmax(values))):
            if abs(value - column.mean) > MOST_DEVIATIONS * column.deviation:
                raise MotetError(
                    f"{self.table.where}: column {shown(name)} holds {value:g}, but the schema says mean "
                    f"{column.mean:g} and deviation {column.deviation:g}; accepted: those of such numbers"
                )

    def _ids(self, x: Floats, names: list[str]) -> list[str]:
        """Columns of whole numbers that are all different, though no count and not called an id."""
        places = {name: i for i, name in enumerate(names)}
        found = [name for name, seen in self.numbering.items() if name in places and seen.possible]
        return [n for n in found if len(x) >= MANY and len(np.unique(x[:, places[n]])) > 0.99 * len(x)]

    def _useless(self, values: Floats, name: str) -> str | None:
        """Return why nothing can be learned from a column, or None."""
        there = len(values) - int(np.count_nonzero(np.isnan(values)))
        if not there:
            return "no value"
        if name in self.numbering and self.numbering[name].is_one:
            return "numbers the rows"
        names = self.categories.get(name)
        if there == len(values) >= FEW and bool((values == values[0]).all()):
            return "the same value in every row"
        if names is not None and names.too_many:
            odd = [text for text in names.numbers if is_number(text) and not is_plain(text)]
            some = f", many of them numbers such as {shown(odd[0])}" if 2 * len(odd) > MOST_CATEGORIES else ""
            return f"more than {MOST_CATEGORIES} different texts{some}"
        if names is not None and there >= FEW and 2 * len(names.numbers) > there:
            return f"{len(names.numbers)} different texts in {there} rows"
        return None


def _put_in_order(column: Floats, places: Integers) -> None:
    known = column >= 0
    column[known] = places[column[known].astype(np.int64)]


def _mixed(name: str, categories: tuple[str, ...]) -> list[str]:
    """A note about a column of numbers that some text made one of categories, or numbers written in several ways."""
    texts = [category for category in categories if not is_number(category)]
    if 2 * len(texts) > len(categories):
        return []
    odd = [category for category in categories if not is_plain(category)]
    if not odd:
        return []
    so = "so that its values are categories"
    if texts:
        return [f"column {shown(name)} holds numbers and {shown(texts[0])}, {so}"]
    other = next((category for category in categories if category != odd[0]), odd[0])
    return [f"column {shown(name)} holds numbers written in several ways, as {shown(odd[0])} and {shown(other)}, {so}"]


def _said(notations: Mapping[str, Notation]) -> list[str]:
    """Which columns were read as numbers though they are not written as programs write them."""
    said = [
        f"{shown(name)} ({shown(found.example)} is {found.value(found.example):g})" for name, found in notations.items()
    ]
    return [f"read as numbers: {some(said)}"] if said else []


_IN_WORDS: dict[Order, str] = {
    "ymd": "year, month, day",
    "dmy": "day, month, year",
    "mdy": "month, day, year",
}


def _said_of_dates(names: list[str], orders: Mapping[str, Order]) -> list[str]:
    """Which columns are dates, and how those were read that could be read otherwise."""
    said = [shown(name) + (f" (as {_IN_WORDS[orders[name]]})" if orders[name] != "ymd" else "") for name in names]
    return [f"dates become numbers of days: {some(said)}"] if said else []


def _reasons(notes: dict[str, str]) -> str:
    named = list(notes.items())[:MOST_REASONS]
    some = [f"{', '.join(shown(n) for n, _ in same)} ({why})" for why, same in groupby(named, key=lambda note: note[1])]
    more = [f"{len(notes) - MOST_REASONS} more"] if len(notes) > MOST_REASONS else []
    return ", ".join([*some, *more])
