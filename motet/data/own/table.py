"""A table of numbers, booleans and categories, with a label: from record batches to stored rows."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from motet.data.columns import Columns
from motet.data.own.batches import Batches, DataType, OtherType, RecordBatch
from motet.data.own.names import MISSING_NAME, Names
from motet.data.raw import Integers, RawData, default_net_for
from motet.data.schema import Schema, read_schema
from motet.data.table_prepare import GivenSchema, TableColumns
from motet.data.values import LARGEST
from motet.errors import MotetError, shown, unknown
from motet.room import refuse_if_too_large

MOST_CLASSES = 65_536
MOST_CLIENTS = 10_000_000
MOST_CATEGORIES = 256
"""Different texts of a column that may be categories without a schema that lists them."""
FEW = 10
"""Rows from which on a column may be said to number them."""

Kind = Literal["number", "boolean", "category"]
Floats = npt.NDArray[np.float32]


def raw_of_table(table: Batches, columns: Columns) -> RawData:
    """The data of a table."""
    schema = None if columns.schema is None else read_schema(columns.schema)
    plan = _plan(table, columns, schema)
    while True:
        try:
            return _finished(_Reading(table, plan).read(), table.where, plan)
        except OtherType as found:
            plan = plan.otherwise(found.column)


def rows_by_schema(table: Batches, schema: Schema, labelled: bool) -> tuple[Floats, Integers | None]:
    """Stored rows of a table that a schema describes, and their classes.

    Where not all of them are there it is an error of a `labelled` table; of others there are none.
    """
    column, known = shown(schema.label), schema.label in table.types
    if labelled and not known:
        raise unknown("column of the schema (its label)", schema.label, table.types)
    roles = {"label": schema.label} if known else {}
    plan = _by_schema(schema, roles, [name for name in table.types if name != schema.label], set())
    try:
        rows = _Reading(table, plan).read()
    except OtherType as found:
        plan.otherwise(found.column)
        raise
    y = rows.roles.get("label")
    if labelled and y is not None:
        _refuse_holes(y, column, "label", table.where)
        if (refused := rows.role_names["label"].refused) is not None:
            classes = ", ".join(map(shown, schema.classes))
            raise MotetError(f"{table.where}: column {column} holds {shown(refused)}; accepted: {classes}")
    return rows.x, None if y is None or (y < 0).any() else y


# ---------------------------------------------------------------- what is read as what


@dataclass
class _Plan:
    """What to do with each column."""

    roles: dict[str, str]
    """The columns that are label, client and domain."""
    kinds: dict[str, Kind]
    """Of the columns to learn from, in their order."""
    schema: Schema | None
    notes: dict[str, str] = field(default_factory=dict)
    """Why a column is left out."""

    def otherwise(self, column: str) -> "_Plan":
        """After a value that is no number, and no truth."""
        if self.schema is not None:
            raise MotetError(
                f"column {shown(column)} holds what is no {self.kinds[column]}, as which the schema has it; accepted: "
                f"kind = category, or another file"
            )
        return _Plan(self.roles, {**self.kinds, column: "category"}, None, self.notes)


def _plan(table: Batches, columns: Columns, schema: Schema | None) -> _Plan:
    label = columns.label or (schema.label if schema else None)
    if label is None:
        raise MotetError(
            f"{table.where}: data.label is not set; accepted: the column that holds the classes, one of "
            f"{', '.join(map(shown, table.types))}"
        )
    roles = {"label": label, "client": columns.client, "domain": columns.domain}
    named = {role: name for role, name in roles.items() if name is not None}
    for role, name in named.items():
        if name not in table.types:
            raise unknown(f"column (data.{role})", name, table.types)
    if len(set(named.values())) < len(named):
        raise MotetError(f"{table.where}: {_pairs(named)}; accepted: a column of its own for each")
    left_out = set(_left_out(columns, table))
    if both := left_out & set(named.values()):
        raise MotetError(f"data.leave_out has {shown(both.pop())}, which is named for something else; accepted: others")
    rest = [name for name in table.types if name not in named.values() and name not in left_out]
    if schema is not None:
        return _by_schema(schema, named, rest, left_out)
    plan = _Plan(named, {}, None)
    for name in rest:
        kind = _kind(table.types[name])
        if name == f"(column {list(table.types).index(name) + 1})":
            plan.notes[name] = "has no name"
        elif kind is None:
            plan.notes[name] = f"holds {_in_words(table.types[name])}"
        else:
            plan.kinds[name] = kind
    return plan


def _by_schema(schema: Schema, roles: dict[str, str], rest: list[str], left_out: set[str]) -> _Plan:
    for name in schema.columns:
        if name in roles.values() or name in left_out:
            raise MotetError(f"column {shown(name)} is in the schema and named for something else; accepted: one")
        if name not in rest:
            raise unknown("column of the schema", name, rest)
    notes = {name: "is not in the schema" for name in rest if name not in schema.columns}
    return _Plan(roles, {name: column.kind for name, column in schema.columns.items()}, schema, notes)


def _left_out(columns: Columns, table: Batches) -> Iterator[str]:
    """Columns by their names, or several in one text with commas."""
    for text in columns.leave_out:
        for name in [text] if text in table.types else [part.strip() for part in text.split(",")]:
            if name not in table.types:
                raise unknown("column (data.leave_out)", name, table.types)
            yield name


def _kind(found: DataType) -> Kind | None:
    from motet.data.own.arrow import types as is_type

    if is_type.is_dictionary(found):
        return _kind(found.value_type)
    if is_type.is_boolean(found):
        return "boolean"
    if is_type.is_null(found) or is_type.is_integer(found) or is_type.is_floating(found) or is_type.is_decimal(found):
        return "number"
    return "category" if is_type.is_string(found) or is_type.is_large_string(found) else None


def _in_words(found: DataType) -> str:
    from motet.data.own.arrow import types as is_type

    return "dates or times" if is_type.is_temporal(found) else f"neither numbers nor text but {str(found)[:40]}"


def _pairs(named: dict[str, str]) -> str:
    return " and ".join(f"data.{role} is {shown(name)}" for role, name in named.items())


# ---------------------------------------------------------------- the rows


@dataclass
class _Rows:
    """All that was read."""

    x: Floats
    roles: dict[str, Integers]
    role_names: dict[str, Names]
    categories: dict[str, Names]
    ids: dict[str, bool]
    """Whether a column of numbers seems to number the rows."""


class _Reading:
    """One walk through a table."""

    def __init__(self, table: Batches, plan: _Plan):
        self.table, self.plan = table, plan
        given = plan.schema.classes if plan.schema else None
        most = {"label": MOST_CLASSES, "client": MOST_CLIENTS, "domain": MOST_CLASSES}
        self.role_names = {role: Names(most[role], given if role == "label" else None) for role in plan.roles}
        self.categories = {name: self._names(name) for name, kind in plan.kinds.items() if kind == "category"}
        self.numbering = {name: _Numbering(name) for name, kind in plan.kinds.items() if kind == "number"}

    def _names(self, column: str) -> Names:
        listed = getattr(self.plan.schema.columns[column], "categories", None) if self.plan.schema else None
        return Names(MOST_CATEGORIES, listed)

    def read(self) -> _Rows:
        """From the first row to the last."""
        blocks: list[Floats] = []
        roles: dict[str, list[Integers]] = {role: [] for role in self.plan.roles}
        taken = checked = 0
        for batch in self.table.read(self._types()):
            blocks.append(self._block(batch))
            for role, name in self.plan.roles.items():
                roles[role].append(self.role_names[role].read(_texts(batch.column(name), name, self.table.where)))
            taken += blocks[-1].nbytes
            if taken > 2 * checked:
                refuse_if_too_large(taken, self.table.where, "a table that fits twice")
                checked = taken
        if not sum(map(len, blocks)):
            raise MotetError(f"{self.table.where}: holds no rows; accepted: a table with a header line and rows")
        return _Rows(
            _joined(blocks),
            {role: np.concatenate(parts) for role, parts in roles.items()},
            self.role_names,
            self.categories,
            {name: numbering.is_one for name, numbering in self.numbering.items()},
        )

    def _types(self) -> dict[str, DataType]:
        from motet.data.own.arrow import pa

        as_types = {"number": pa.float64(), "boolean": pa.bool_(), "category": pa.string()}
        names = dict.fromkeys(self.plan.roles.values(), pa.string())
        ignored = dict.fromkeys(self.plan.notes, pa.string())
        return {**ignored, **{name: as_types[kind] for name, kind in self.plan.kinds.items()}, **names}

    def _block(self, batch: RecordBatch) -> Floats:
        """Rows of floats; what is missing is NaN."""
        block = np.empty((batch.num_rows, len(self.plan.kinds)), np.float32)
        for i, (name, kind) in enumerate(self.plan.kinds.items()):
            column = batch.column(name)
            if kind == "category":
                places = self.categories[name].read(_texts(column, name, self.table.where))
                block[:, i] = np.where(places == MISSING_NAME, np.nan, places)
            else:
                values = _numbers(column, name, kind, self.table.where)
                if kind == "number":
                    self.numbering[name].see(values)
                block[:, i] = values
        return block


def _joined(blocks: list[Floats]) -> Floats:
    """One array; each block goes as it is copied, so that memory holds the table little more than once."""
    joined = np.empty((sum(map(len, blocks)), blocks[0].shape[1]), np.float32)
    at = 0
    blocks.reverse()
    while blocks:
        block = blocks.pop()
        joined[at : at + len(block)] = block
        at += len(block)
    return joined


def _texts(column: Any, name: str, where: str) -> Any:
    from motet.data.own.arrow import compute, pa

    try:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        return compute.cast(column, pa.string())
    except (pa.ArrowException, ValueError, NotImplementedError) as error:
        raise MotetError(
            f"{where}: column {shown(name)} holds {str(column.type)[:40]}; accepted: text, numbers or truths"
        ) from error


def _numbers(column: Any, name: str, kind: Kind, where: str) -> npt.NDArray[np.float64]:
    from motet.data.own.arrow import compute, pa

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


class _Numbering:
    """Whether a column of numbers seems to number the rows: whole, all different, and a count or called an id."""

    def __init__(self, name: str):
        self.called = re.search(r"(^|[\W_])id$|[a-z]I[dD]$", name, re.ASCII) is not None or name.lower() == "id"
        self.possible, self.rows = True, 0
        self.low, self.high = np.inf, -np.inf

    def see(self, values: npt.NDArray[np.float64]) -> None:
        """The next rows."""
        if not self.possible or not len(values):
            return
        self.possible = bool((values % 1 == 0).all()) and len(np.unique(values)) == len(values)
        self.rows += len(values)
        self.low, self.high = min(self.low, values.min()), max(self.high, values.max())

    @property
    def is_one(self) -> bool:
        """After the last row."""
        counts = self.high - self.low + 1 == self.rows
        return self.possible and self.rows >= FEW and (counts or self.called)


# ---------------------------------------------------------------- what was read, looked at


def _finished(rows: _Rows, where: str, plan: _Plan) -> RawData:
    y, classes = _labels(rows, where, plan)
    client, client_names = _role(rows, "client", where, plan)
    domain, domain_names = _role(rows, "domain", where, plan)
    if client is not None and len(client_names) < 2:
        raise MotetError(
            f"{where}: column {shown(plan.roles['client'])} names only client {shown(client_names[0])}; accepted: at "
            f"least two, or no data.client"
        )
    notes = dict(plan.notes)
    keep, lists = [], dict[str, tuple[str, ...] | None]()
    for i, (name, kind) in enumerate(plan.kinds.items()):
        why = None if plan.schema else _useless(rows, i, name)
        if why:
            notes[name] = why
            continue
        keep.append(i)
        lists[name] = None
        if kind == "category":
            lists[name], places = rows.categories[name].sorted()
            _put_in_order(rows.x[:, i], places)
    if not keep:
        raise MotetError(f"{where}: no column is left to learn from ({_reasons(notes)}); accepted: at least one")
    fit = (
        GivenSchema(plan.schema).fit
        if plan.schema
        else TableColumns(plan.roles["label"], classes, lists, frozenset(_booleans(plan))).fit
    )
    return RawData(
        x=rows.x if len(keep) == rows.x.shape[1] else rows.x[:, keep],
        y=y,
        kind="vector",
        classes=len(classes),
        top=1,
        net=default_net_for("vector"),
        client=client,
        domain=domain,
        class_names=classes,
        client_names=client_names,
        domain_names=domain_names,
        fit=fit,
        notes=(f"left out: {_reasons(notes, 8)}",) if notes else (),
    )


def _booleans(plan: _Plan) -> list[str]:
    return [name for name, kind in plan.kinds.items() if kind == "boolean"]


def _labels(rows: _Rows, where: str, plan: _Plan) -> tuple[Integers, tuple[str, ...]]:
    y, column, names = rows.roles["label"], shown(plan.roles["label"]), rows.role_names["label"]
    _refuse_holes(y, column, "label", where)
    if names.refused is not None:
        raise MotetError(
            f"{where}: column {column} holds {shown(names.refused)}; accepted: the classes of the schema, "
            f"{', '.join(map(shown, names.numbers))}"
        )
    classes, places = names.sorted()
    if len(classes) < 2 or len(np.unique(y)) < 2:
        raise MotetError(
            f"{where}: column {column} holds only label {shown(classes[int(y[0])])}; accepted: at least two classes"
        )
    fractions = [name for name in classes if re.fullmatch(r"-?\d*\.\d+(e[-+]?\d+)?", name, re.IGNORECASE)]
    if names.too_many or len(classes) == len(y) or (len(fractions) > len(classes) // 2 and len(classes) > FEW):
        raise MotetError(
            f"{where}: column {column} holds {'more than ' if names.too_many else ''}{len(classes)} different values "
            f"such as {shown(classes[-1])}; accepted: classes, of which rows have some in common"
        )
    return places[y], classes


def _role(rows: _Rows, role: str, where: str, plan: _Plan) -> tuple[Integers | None, tuple[str, ...]]:
    if role not in plan.roles:
        return None, ()
    _refuse_holes(rows.roles[role], shown(plan.roles[role]), role, where)
    names, places = rows.role_names[role].sorted()
    return places[rows.roles[role]], names


def _refuse_holes(numbers: Integers, column: str, role: str, where: str) -> None:
    holes = int(np.count_nonzero(numbers == MISSING_NAME))
    if holes:
        first = int(np.argmax(numbers == MISSING_NAME)) + 1
        raise MotetError(
            f"{where}: column {column} has no {role} in {holes} of {len(numbers)} rows, first in row {first}; "
            f"accepted: a {role} in every row, so take those rows out"
        )


def _useless(rows: _Rows, i: int, name: str) -> str | None:
    """Why a column teaches nothing."""
    values = rows.x[:, i]
    there = len(values) - int(np.count_nonzero(np.isnan(values)))
    if not there:
        return "holds no value"
    if rows.ids.get(name):
        return "numbers the rows"
    names = rows.categories.get(name)
    if names is not None and names.too_many:
        return f"holds more than {MOST_CATEGORIES} different texts"
    if names is not None and there >= FEW and 2 * len(names.numbers) > there:
        return f"holds {len(names.numbers)} different texts in {there} rows"
    return None


def _put_in_order(column: Floats, places: Integers) -> None:
    known = column >= 0
    column[known] = places[column[known].astype(np.int64)]


def _reasons(notes: dict[str, str], most: int = 3) -> str:
    some = [f"column {shown(name)} {why}" for name, why in list(notes.items())[:most]]
    more = [f"{len(notes) - most} more"] if len(notes) > most else []
    return ", ".join([*some, *more]) or "there is none besides"
