"""A table of numbers, booleans and categories, with a label: from record batches to stored rows."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import numpy as np

from motet.config.data_section import Columns, Decimal
from motet.data.prepare_table import GivenSchema, TableColumns
from motet.data.readers.batches import Batches, DataType, OtherType, RecordBatch
from motet.data.readers.cells import MISSING_NAME, ColumnKind, Floats, Growing, Names, fits, numbers, strings
from motet.data.readers.hints import leaks, may_name_clients
from motet.data.readers.notation import Notation, is_number, is_plain, notation_of
from motet.data.readers.raw import Integers, RawData, default_net_for
from motet.data.readers.roles import FEW, Numbering, RoleReader, Roles, left_out, roles_of
from motet.data.schema import CategoryColumn, Column, NumberColumn, Schema, read_schema
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
    reading, rows = _walked(table, _plan(table, columns, schema, usual_label))
    return reading.finished(rows)


def rows_by_schema(table: Batches, schema: Schema) -> tuple[Floats, RoleReader]:
    """Stored rows of a table that a schema describes, and who reads its labels if it has their column."""
    label = schema.label if schema.label in table.types else None
    roles = Roles(label, None, None, table.where, schema.classes)
    reading, rows = _walked(table, _by_schema(schema, roles, {name for name in table.types if name != label}, table))
    for i, (name, column) in enumerate(schema.columns.items()):
        reading.refuse_far(rows[:, i], name, column)
    return rows, reading.roles


def _walked(table: Batches, plan: "_Plan") -> tuple["_Reading", Floats]:
    """Return the reading and all rows, after as few passes as it takes to know what each column holds."""
    while True:
        reading = _Reading(table, plan)
        try:
            rows = reading.rows()
        except OtherType as found:
            plan = plan.otherwise(_unlike(table, plan, found.column))
            continue
        written = reading.notations()
        if not written:
            return reading, rows
        plan = plan.written(written)
        del reading, rows  # before as many are read again


def _unlike(table: Batches, plan: "_Plan", first: str) -> dict[str, list[str]]:
    """Return every column that holds another type than planned, with some of its texts, found in one pass."""
    from motet.data.readers.cells import pa

    types = plan.types() | {name: pa.string() for name, kind in plan.kinds.items() if kind != "category"}
    found: dict[str, Names] = {first: Names(MOST_CATEGORIES)}
    for batch in table.read(types):
        for name, kind in plan.kinds.items():
            if kind == "category" or name in plan.notations:
                continue
            texts = strings(batch.column(name), name, table.where)
            if name not in found and not fits(texts, kind):
                found[name] = Names(MOST_CATEGORIES)
            if name in found:
                found[name].read(texts)
    return {name: list(names.numbers) for name, names in found.items()}


# -------- What is read as what


@dataclass
class _Plan:
    """What is done with each column: its role, its kind, or why it is left out."""

    roles: Roles
    kinds: dict[str, ColumnKind]
    """Of the columns to learn from, in their order."""
    schema: Schema | None
    decimal: Decimal = "auto"
    min_count: int = 1
    notes: dict[str, str] = field(default_factory=dict)
    """Why a column is left out."""
    notations: dict[str, Notation] = field(default_factory=dict)
    """Of columns of numbers that are not written as programs write them."""
    settled: frozenset[str] = frozenset()
    """Columns of texts that are no numbers, in whatever way they may be written."""

    def otherwise(self, found: Mapping[str, list[str]]) -> "_Plan":
        """Return the plan for columns that turned out to hold other values: another notation, or categories."""
        kinds, notations = dict(self.kinds), dict(self.notations)
        for name, texts in found.items():
            tried = notations.pop(name, None) is not None or self.kinds[name] != "number"
            notation = None if tried else notation_of(texts, self.decimal, name, self.roles.where)
            if notation is not None:
                notations[name] = notation
            elif self.schema is None:
                kinds[name] = "category"
            else:
                wrong = next((text for text in texts if not is_plain(text)), texts[0] if texts else "")
                raise MotetError(
                    f"{self.roles.where}: column {shown(name)} holds {shown(wrong)}, but the schema says that it holds "
                    f"{_PLURAL[self.kinds[name]]}; accepted: {_PLURAL[self.kinds[name]]}, or a schema in which its "
                    f"kind is category"
                )
        settled = self.settled | {name for name in found if name not in notations}
        return replace(self, kinds=kinds, notations=notations, settled=settled)

    def written(self, found: Mapping[str, Notation]) -> "_Plan":
        """Return the plan with these columns of texts read as numbers."""
        kinds = {name: "number" if name in found else kind for name, kind in self.kinds.items()}
        return replace(self, kinds=kinds, notations={**self.notations, **found})

    def types(self) -> dict[str, DataType]:
        """Return the Arrow types as which columns are read where the file does not say it itself."""
        from motet.data.readers.cells import pa

        as_types = {"number": pa.float64(), "boolean": pa.bool_(), "category": pa.string()}
        others = dict.fromkeys([*self.notes, *self.roles.columns.values(), *self.notations], pa.string())
        return {**{name: as_types[kind] for name, kind in self.kinds.items()}, **others}


_PLURAL: dict[ColumnKind, str] = {"number": "numbers", "boolean": "truths", "category": "categories"}


def _plan(table: Batches, columns: Columns, schema: Schema | None, usual_label: str | None) -> _Plan:
    roles = roles_of(table, columns, schema.label if schema else usual_label)
    unwanted = left_out(table, columns, roles) | set(roles.columns.values())
    rest = [name for name in table.types if name not in unwanted]
    if schema is not None:
        by_schema = _by_schema(schema, replace(roles, classes=schema.classes), set(rest), table)
        return replace(by_schema, decimal=columns.decimal)
    plan = _Plan(roles, {}, None, columns.decimal, columns.min_count)
    for name in rest:
        kind = kind_of_column(table.types[name])
        if name in table.nameless:
            plan.notes[name] = "no name"
        elif kind is None:
            plan.notes[name] = _in_words(table.types[name])
        else:
            plan.kinds[name] = kind
    return plan


def _by_schema(schema: Schema, roles: Roles, rest: set[str], table: Batches) -> _Plan:
    for name in schema.columns:
        if name not in table.types:
            raise MotetError(
                f"{table.where}: column {shown(name)} of the schema is missing; accepted: a table with all columns of "
                f"the schema, and this one has {', '.join(map(shown, list(table.types)[:20]))}"
            )
        if name not in rest:
            raise MotetError(f"column {shown(name)} is in the schema, and named for something else; accepted: one")
    notes = {name: "not in the schema" for name in table.types if name in rest and name not in schema.columns}
    return _Plan(roles, {name: column.kind for name, column in schema.columns.items()}, schema, notes=notes)


def kind_of_column(found: DataType) -> ColumnKind | None:
    """Return what a column of this type holds; None for what is neither number nor text."""
    from motet.data.readers.cells import types as is_type

    if is_type.is_dictionary(found):
        return kind_of_column(found.value_type)
    if is_type.is_boolean(found):
        return "boolean"
    if is_type.is_null(found) or is_type.is_integer(found) or is_type.is_floating(found) or is_type.is_decimal(found):
        return "number"
    return "category" if is_type.is_string(found) or is_type.is_large_string(found) else None


def _in_words(found: DataType) -> str:
    from motet.data.readers.cells import types as is_type

    return "dates or times" if is_type.is_temporal(found) else f"neither numbers nor text but {str(found)[:40]}"


# -------- The rows


class _Reading:
    """One pass through a table by a plan."""

    def __init__(self, table: Batches, plan: _Plan):
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

    def _fill(self, block: Floats, batch: RecordBatch) -> None:
        """Fill a block with the rows of a batch as floats; what is missing is NaN."""
        for i, (name, kind) in enumerate(self.plan.kinds.items()):
            column = batch.column(name)
            if kind == "category":
                places = self.categories[name].read(strings(column, name, self.table.where))
                block[:, i] = np.where(places == MISSING_NAME, np.nan, places)
                continue
            if name in self.plan.notations:
                column = self._as_numbers(strings(column, name, self.table.where), name)
            values = numbers(column, name, kind, self.table.where)
            if kind == "number":
                self.numbering[name].see(values)
            block[:, i] = values

    def _as_numbers(self, texts: Any, column: str) -> Any:
        try:
            return self.plan.notations[column].numbers(texts)
        except ValueError:  # Arrow's own are such too
            raise OtherType(column) from None

    def finished(self, x: Floats) -> RawData:
        """Return the data without columns that teach nothing, and with categories in the order of their names."""
        fields = self.roles.fields()
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
        before = TableColumns(label, fields["class_names"], lists, booleans, self.plan.min_count)
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
                *mixed[:MOST_REASONS],
                *([f"so are {len(mixed) - MOST_REASONS} more columns"] if len(mixed) > MOST_REASONS else []),
                *leaks(x, lists, fields["y"], self._ids(x, list(lists))),
            ),
            may_name_clients=None if self.plan.roles.client else may_name_clients(list(lists), x, list(notes)),
            **fields,
        )

    def refuse_far(self, values: Floats, name: str, column: Column) -> None:
        """A mean and deviation that are not of these numbers make input that no net can compute with."""
        if not isinstance(column, NumberColumn) or not len(values) or np.isnan(values).all():
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


def _reasons(notes: dict[str, str]) -> str:
    named = list(notes.items())[:MOST_REASONS]
    some = [f"{', '.join(shown(n) for n, _ in same)} ({why})" for why, same in groupby(named, key=lambda note: note[1])]
    more = [f"{len(notes) - MOST_REASONS} more"] if len(notes) > MOST_REASONS else []
    return ", ".join([*some, *more])
