"""What is done with each column of a table: its role, its kind, how it is written, or why it is left out."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from motet.config.data_section import Columns, Dates, Decimal
from motet.data.dates import is_date, order_of
from motet.data.fit_columns import Fitting
from motet.data.readers.batches import Batches, DataType
from motet.data.readers.cells import ColumnKind
from motet.data.readers.notation import Notation, is_plain, notation_of
from motet.data.readers.roles import Roles, left_out, roles_of
from motet.data.schema import DateColumn, Order, Schema
from motet.errors import MotetError, shown


@dataclass
class TablePlan:
    """What is done with each column: its role, its kind, or why it is left out."""

    roles: Roles
    kinds: dict[str, ColumnKind]
    """Of the columns to learn from, in their order."""
    schema: Schema | None
    decimal: Decimal = "auto"
    dates: Dates = "auto"
    fitting: Fitting = field(default_factory=Fitting)
    notes: dict[str, str] = field(default_factory=dict)
    """Why a column is left out."""
    notations: dict[str, Notation] = field(default_factory=dict)
    """Of columns of numbers that are not written as programs write them."""
    orders: dict[str, Order] = field(default_factory=dict)
    """Of columns of dates that are read as texts."""
    settled: frozenset[str] = frozenset()
    """Columns of texts that are neither numbers nor dates, in whatever way they may be written."""

    def otherwise(self, found: Mapping[str, list[str]]) -> "TablePlan":
        """Return the plan for columns that turned out to hold other values: another notation, or categories."""
        kinds, notations, orders = dict(self.kinds), dict(self.notations), dict(self.orders)
        for name, texts in found.items():
            tried = notations.pop(name, None) is not None or self.kinds[name] != "number"
            notation = None if tried else notation_of(texts, self.decimal, name, self.roles.where)
            as_dates = self.kinds[name] == "date" and orders.pop(name, None) is None and self.schema is None
            order = order_of(texts, self.dates, name, self.roles.where) if as_dates else None
            if notation is not None:
                notations[name] = notation
            elif order is not None:
                orders[name] = order
            elif self.schema is None:
                kinds[name] = "category"
            else:
                wrong = next((text for text in texts if not self._fits(name, text)), texts[0] if texts else "")
                raise MotetError(
                    f"{self.roles.where}: column {shown(name)} holds {shown(wrong)}, but the schema says that it holds "
                    f"{_PLURAL[self.kinds[name]]}; accepted: {_PLURAL[self.kinds[name]]}, or a schema in which its "
                    f"kind is category"
                )
        settled = self.settled | {name for name in found if name not in notations and name not in orders}
        return replace(self, kinds=kinds, notations=notations, orders=orders, settled=settled)

    def _fits(self, name: str, text: str) -> bool:
        """Return whether one text is what a column of numbers or dates holds by its schema."""
        return is_date(text, self.orders[name]) if name in self.orders else is_plain(text)

    def written(self, found: Mapping[str, Notation], dated: Mapping[str, Order]) -> "TablePlan":
        """Return the plan with these columns of texts read as numbers, and those as dates."""
        kinds = dict(self.kinds) | dict.fromkeys(found, "number") | dict.fromkeys(dated, "date")
        return replace(self, kinds=kinds, notations={**self.notations, **found}, orders={**self.orders, **dated})

    def types(self) -> dict[str, DataType]:
        """Return the Arrow types as which columns are read where the file does not say it itself."""
        from motet.data.readers.cells import pa

        as_types = {"number": pa.float64(), "boolean": pa.bool_(), "category": pa.string()}
        others = dict.fromkeys([*self.notes, *self.roles.columns.values(), *self.notations, *self.orders], pa.string())
        return {**{name: as_types[kind] for name, kind in self.kinds.items() if kind in as_types}, **others}


_PLURAL: dict[ColumnKind, str] = {
    "number": "numbers",
    "date": "dates",
    "boolean": "truths",
    "category": "categories",
}


def plan_of(table: Batches, columns: Columns, schema: Schema | None, usual_label: str | None) -> TablePlan:
    """Return what is done with each column of a table, by its types or by a schema."""
    roles = roles_of(table, columns, schema.label if schema else usual_label)
    unwanted = left_out(table, columns, roles) | set(roles.columns.values())
    rest = [name for name in table.types if name not in unwanted]
    if schema is not None:  # which may list groups and times as columns to learn from
        also = {name for name in (roles.group, roles.time) if name in schema.columns and name is not None}
        by_schema = plan_by_schema(schema, replace(roles, **label_of_schema(schema)), {*rest, *also}, table)
        return replace(by_schema, decimal=columns.decimal)
    fitting = Fitting(numbers=columns.numbers, min_count=columns.min_count, indicators=columns.indicators)
    plan = TablePlan(roles, {}, None, columns.decimal, columns.dates, fitting)
    for name in rest:
        kind = kind_of_column(table.types[name])
        if name in table.nameless:
            plan.notes[name] = "no name"
        elif kind is None:
            plan.notes[name] = _in_words(table.types[name])
        else:
            plan.kinds[name] = kind
    return plan


def label_of_schema(schema: Schema) -> dict[str, Any]:
    """Return what a schema says of the label: its classes, or that it is a number."""
    return {"classes": schema.classes} if schema.target is None else {"classes": None, "target": "number"}


def plan_by_schema(schema: Schema, roles: Roles, rest: set[str], table: Batches) -> TablePlan:
    """Return the plan of a table that a schema describes; `rest` are the columns that have no other role."""
    for name in schema.columns:
        if name not in table.types:
            raise MotetError(
                f"{table.where}: column {shown(name)} of the schema is missing; accepted: a table with all columns of "
                f"the schema, and this one has {', '.join(map(shown, list(table.types)[:20]))}"
            )
        if name not in rest:
            raise MotetError(f"column {shown(name)} is in the schema, and named for something else; accepted: one")
    notes = {name: "not in the schema" for name in table.types if name in rest and name not in schema.columns}
    orders = {name: column.order for name, column in schema.columns.items() if isinstance(column, DateColumn)}
    kinds: dict[str, ColumnKind] = {name: column.kind for name, column in schema.columns.items()}
    return TablePlan(roles, kinds, schema, notes=notes, orders=orders)


def kind_of_column(found: DataType) -> ColumnKind | None:
    """Return what a column of this type holds; None for what is neither number nor text."""
    from motet.data.readers.cells import types as is_type

    if is_type.is_dictionary(found):
        return kind_of_column(found.value_type)
    if is_type.is_boolean(found):
        return "boolean"
    if is_type.is_null(found) or is_type.is_integer(found) or is_type.is_floating(found) or is_type.is_decimal(found):
        return "number"
    if is_type.is_date(found) or is_type.is_timestamp(found):
        return "date"
    return "category" if is_type.is_string(found) or is_type.is_large_string(found) else None


def _in_words(found: DataType) -> str:
    from motet.data.readers.cells import types as is_type

    return (
        "times of day, or durations"
        if is_type.is_temporal(found)
        else f"neither numbers nor text but {str(found)[:40]}"
    )
