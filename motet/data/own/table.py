"""A table of numbers, booleans and categories, with a label: from record batches to stored rows."""

from dataclasses import dataclass, field, replace
from itertools import groupby

import numpy as np

from motet.data.columns import Columns
from motet.data.own.batches import Batches, DataType, OtherType, RecordBatch
from motet.data.own.cells import Kind, numbers, strings
from motet.data.own.growing import Floats, Growing
from motet.data.own.names import MISSING_NAME, Names
from motet.data.own.numbering import Numbering
from motet.data.own.roles import FEW, RoleReader, Roles, left_out, roles_of
from motet.data.raw import Integers, RawData, default_net_for
from motet.data.schema import CategoryColumn, Schema, read_schema
from motet.data.table_prepare import GivenSchema, TableColumns
from motet.errors import MotetError, shown, unknown
from motet.room import refuse_if_too_large

MOST_CATEGORIES = 256
"""Different texts of a column that may be categories without a schema that lists them."""
MOST_REASONS = 8
"""Of columns that are left out; the others are counted."""


def raw_of_table(table: Batches, columns: Columns, usual_label: str | None = None) -> RawData:
    """The data of a table."""
    schema = None if columns.schema is None else read_schema(columns.schema)
    plan = _plan(table, columns, schema, usual_label)
    while True:
        try:
            return _Reading(table, plan).read()
        except OtherType as found:
            plan = plan.otherwise(found.column)


def rows_by_schema(table: Batches, schema: Schema) -> tuple[Floats, RoleReader]:
    """Stored rows of a table that a schema describes, and who reads its labels if it has their column."""
    label = schema.label if schema.label in table.types else None
    roles = Roles(label, None, None, table.where, schema.classes)
    reading = _Reading(table, _by_schema(schema, roles, [name for name in table.types if name != label], table))
    try:
        return reading.rows(), reading.roles
    except OtherType as found:
        reading.plan.otherwise(found.column)
        raise


# ---------------------------------------------------------------- what is read as what


@dataclass
class _Plan:
    """What to do with each column."""

    roles: Roles
    kinds: dict[str, Kind]
    """Of the columns to learn from, in their order."""
    schema: Schema | None
    notes: dict[str, str] = field(default_factory=dict)
    """Why a column is left out."""

    def otherwise(self, column: str) -> "_Plan":
        """After a value that is no number, and no truth."""
        if self.schema is not None:
            raise MotetError(
                f"{self.roles.where}: column {shown(column)} holds what is no {self.kinds[column]}, as which the "
                f"schema has it; accepted: another file, or kind = category"
            )
        return _Plan(self.roles, {**self.kinds, column: "category"}, None, self.notes)

    def types(self) -> dict[str, DataType]:
        """As which columns are read where the file does not say it itself."""
        from motet.data.own.arrow import pa

        as_types = {"number": pa.float64(), "boolean": pa.bool_(), "category": pa.string()}
        others = dict.fromkeys([*self.notes, *self.roles.columns.values()], pa.string())
        return {**others, **{name: as_types[kind] for name, kind in self.kinds.items()}}


def _plan(table: Batches, columns: Columns, schema: Schema | None, usual_label: str | None) -> _Plan:
    roles = roles_of(table, columns, schema.label if schema else usual_label)
    unwanted = left_out(table, columns, roles) | set(roles.columns.values())
    rest = [name for name in table.types if name not in unwanted]
    if schema is not None:
        return _by_schema(schema, replace(roles, classes=schema.classes), rest, table)
    plan = _Plan(roles, {}, None)
    for name in rest:
        kind = kind_of_column(table.types[name])
        if name in table.nameless:
            plan.notes[name] = "no name"
        elif kind is None:
            plan.notes[name] = _in_words(table.types[name])
        else:
            plan.kinds[name] = kind
    return plan


def _by_schema(schema: Schema, roles: Roles, rest: list[str], table: Batches) -> _Plan:
    for name in schema.columns:
        if name not in table.types:
            raise unknown("column of the schema", name, table.types)
        if name not in rest:
            raise MotetError(f"column {shown(name)} is in the schema, and named for something else; accepted: one")
    notes = {name: "not in the schema" for name in rest if name not in schema.columns}
    return _Plan(roles, {name: column.kind for name, column in schema.columns.items()}, schema, notes)


def kind_of_column(found: DataType) -> Kind | None:
    """What a column of this type holds; None for what is neither number nor text."""
    from motet.data.own.arrow import types as is_type

    if is_type.is_dictionary(found):
        return kind_of_column(found.value_type)
    if is_type.is_boolean(found):
        return "boolean"
    if is_type.is_null(found) or is_type.is_integer(found) or is_type.is_floating(found) or is_type.is_decimal(found):
        return "number"
    return "category" if is_type.is_string(found) or is_type.is_large_string(found) else None


def _in_words(found: DataType) -> str:
    from motet.data.own.arrow import types as is_type

    return "dates or times" if is_type.is_temporal(found) else f"neither numbers nor text but {str(found)[:40]}"


# ---------------------------------------------------------------- the rows


class _Reading:
    """One walk through a table."""

    def __init__(self, table: Batches, plan: _Plan):
        self.table, self.plan = table, plan
        self.roles = RoleReader(plan.roles)
        self.categories = {name: self._names(name) for name, kind in plan.kinds.items() if kind == "category"}
        self.numbering = {name: Numbering(name) for name, kind in plan.kinds.items() if kind == "number"}

    def _names(self, column: str) -> Names:
        known = self.plan.schema.columns[column] if self.plan.schema else None
        return Names(MOST_CATEGORIES, known.categories if isinstance(known, CategoryColumn) else None)

    def read(self) -> RawData:
        """The data."""
        return self._finished(self.rows(), self.roles.fields())

    def rows(self) -> Floats:
        """From the first row to the last."""
        rows, checked = Growing(len(self.plan.kinds)), 0
        for batch in self.table.read(self.plan.types()):
            self._fill(rows.next(batch.num_rows), batch)
            self.roles.read(batch)
            if rows.bytes > 2 * checked:
                checked = rows.bytes
                refuse_if_too_large(checked, self.table.where, "a table that fits twice")
        return rows.joined()

    def _fill(self, block: Floats, batch: RecordBatch) -> None:
        """Rows of floats; what is missing is NaN."""
        for i, (name, kind) in enumerate(self.plan.kinds.items()):
            column = batch.column(name)
            if kind == "category":
                places = self.categories[name].read(strings(column, name, self.table.where))
                block[:, i] = np.where(places == MISSING_NAME, np.nan, places)
            else:
                values = numbers(column, name, kind, self.table.where)
                if kind == "number":
                    self.numbering[name].see(values)
                block[:, i] = values

    def _finished(self, x: Floats, fields: dict[str, object]) -> RawData:
        """Without the columns that teach nothing, and with categories in the order of their names."""
        notes, mixed = dict(self.plan.notes), []
        keep, lists = [], dict[str, tuple[str, ...] | None]()
        for i, (name, kind) in enumerate(self.plan.kinds.items()):
            why = None if self.plan.schema else self._useless(x[:, i], name)
            if why:
                notes[name] = why
                continue
            keep.append(i)
            lists[name] = None
            if kind == "category":
                lists[name], places = self.categories[name].sorted()
                _put_in_order(x[:, i], places)
                mixed += [] if self.plan.schema else _mixed(name, lists[name] or ())
        if not keep:
            raise MotetError(
                f"{self.table.where}: no column is left to learn from ({_reasons(notes) or 'there is none besides'}); "
                f"accepted: at least one"
            )
        booleans = frozenset(name for name, kind in self.plan.kinds.items() if kind == "boolean")
        before = TableColumns(self.plan.roles.label, fields["class_names"], lists, booleans)  # type: ignore[arg-type]
        return RawData(
            x=x if len(keep) == x.shape[1] else x[:, keep],
            kind="vector",
            top=1,
            net=default_net_for("vector"),
            fit=GivenSchema(self.plan.schema).fit if self.plan.schema else before.fit,
            notes=(*([f"left out: {_reasons(notes)}"] if notes else []), *mixed),
            **fields,  # type: ignore[arg-type]
        )

    def _useless(self, values: Floats, name: str) -> str | None:
        """Why a column teaches nothing."""
        there = len(values) - int(np.count_nonzero(np.isnan(values)))
        if not there:
            return "no value"
        if name in self.numbering and self.numbering[name].is_one:
            return "numbers the rows"
        names = self.categories.get(name)
        if names is not None and names.too_many:
            return f"more than {MOST_CATEGORIES} different texts"
        if names is not None and there >= FEW and 2 * len(names.numbers) > there:
            return f"{len(names.numbers)} different texts in {there} rows"
        return None


def _put_in_order(column: Floats, places: Integers) -> None:
    known = column >= 0
    column[known] = places[column[known].astype(np.int64)]


def _mixed(name: str, categories: tuple[str, ...]) -> list[str]:
    """A note about a column of numbers that some text made one of categories."""
    texts = [category for category in categories if not _is_number(category)]
    if not texts or 2 * len(texts) > len(categories):
        return []
    return [f"column {shown(name)} holds numbers and {shown(texts[0])}, so that its values are categories"]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _reasons(notes: dict[str, str]) -> str:
    named = list(notes.items())[:MOST_REASONS]
    some = [f"{', '.join(shown(n) for n, _ in same)} ({why})" for why, same in groupby(named, key=lambda note: note[1])]
    more = [f"{len(notes) - MOST_REASONS} more"] if len(notes) > MOST_REASONS else []
    return ", ".join([*some, *more])
