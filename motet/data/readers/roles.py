"""The columns of a table that are not features: label, client and domain by their names, and row numbers.

Labels that are measurements rather than classes are refused with a sentence.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from motet.config.data_section import Columns, Dates, Decimal, TargetKind
from motet.data.dates import days_of, order_of
from motet.data.readers.batches import Batches, RecordBatch
from motet.data.readers.cells import MISSING_NAME, Names, are_missing, as_arrow, strings
from motet.data.readers.notation import is_plain, notation_of, numbers_among
from motet.data.readers.raw import Integers, Truths
from motet.data.readers.values import LARGEST
from motet.errors import MotetError, shown, unknown

FEW = 10
"""Rows, or names, from which on something may be said of all."""
_ROWS_EACH = 10
"""Of a class, on average, that whole numbers need to be classes where there are many of them."""
_MANY = 20
_GAPS = 0.25
"""Of codes of classes that many rows share: those that no row of these data has."""


def are_measurements(names: Sequence[str], rows: int) -> bool:
    """Return whether labels are numbers of many values: fractions, or whole numbers that are no codes of classes."""
    numbers = numbers_among(names)
    fractions = [name for name in numbers if not name.strip().lstrip("+-").isdecimal()]
    numeric = 2 * len(numbers) > len(names)
    measured = numeric and len(names) > FEW and 4 * len(fractions) > len(names)
    gaps = 0.0 if _ROWS_EACH * len(names) > rows else _GAPS
    return measured or (numeric and len(names) > _MANY and not _are_codes(names, gaps))


def refuse_measurements(classes: Sequence[str], rows: int, column: str) -> None:
    """Refuse names of classes that are numbers of many values, or that hardly any two rows share.

    `column` begins the sentence: the file and the column.
    """
    if are_measurements(classes, rows):
        raise MotetError(
            f"{column} holds {len(classes)} different numbers such as {shown(numbers_among(classes)[-1])} in {rows} "
            f"rows, which is a measurement; accepted: classes that many rows share, or a column of a table that holds "
            f"numbers alone, which may be predicted as such"
        )
    if len(classes) > FEW and (len(classes) == rows or (len(classes) > _MANY and 2 * len(classes) > rows)):
        raise MotetError(
            f"{column} holds {len(classes)} different values such as {shown(classes[-1])} in {rows} rows; accepted: "
            f"classes, of which rows have some in common"
        )


def _are_codes(classes: Sequence[str], gaps: float) -> bool:
    """Whether names are the numbers from 0 or 1 on, as those of classes are and those of measurements hardly; this
    share of them may be missing."""
    if not all(name.isdecimal() and len(name) < 10 for name in classes):
        return False
    numbers = sorted(map(int, classes))
    return numbers[0] in (0, 1) and (1 - gaps) * (numbers[-1] - numbers[0]) <= len(numbers) - 1


# -------- The columns of a table that are not there to learn from


MOST_CLASSES = 65_536
MOST_CLIENTS = 10_000_000
_MOST = {
    "label": MOST_CLASSES,
    "client": MOST_CLIENTS,
    "domain": MOST_CLASSES,
    "group": MOST_CLIENTS,
    "time": MOST_CLIENTS,
}
_FIELDS = {"time": "time_column"}
"""The fields of [data] that are not called as their role is."""


@dataclass(frozen=True)
class Roles:
    """Which columns are the label, the client and the domain; None for a role that no column has."""

    label: str | None
    client: str | None
    domain: str | None
    where: str
    classes: Sequence[str] | None = None
    """That the label may have, in their order, where the table or a schema lists them."""
    drop_missing: bool = False
    """Whether rows without one of these are dropped."""
    split: Callable[[], Integers] | None = None
    """Of each row that was read, 1 for the official test set, where the table says it."""
    group: str | None = None
    """The column that says which rows belong together."""
    time: str | None = None
    """The column that says when a row was made."""
    dates: Dates = "auto"
    target: TargetKind = "auto"
    """Whether the label is a class or a number."""
    decimal: Decimal = "auto"

    @property
    def columns(self) -> dict[str, str]:
        """Return the name of each role's column by role."""
        named = {
            "label": self.label,
            "client": self.client,
            "domain": self.domain,
            "group": self.group,
            "time": self.time,
        }
        return {role: name for role, name in named.items() if name is not None}


def roles_of(table: Batches, columns: Columns, usual_label: str | None = None) -> Roles:
    """Return which column has which role, after a look at whether it is there."""
    label = columns.label or usual_label
    if label is None:
        raise MotetError(
            f"{table.where}: data.label is not set; accepted: the column that holds the classes, one of "
            f"{', '.join(map(shown, list(table.types)[:100]))}"
        )
    classes = table.classes.get(label) or None
    roles = Roles(
        label,
        columns.client,
        columns.domain,
        table.where,
        classes,
        columns.drop_missing,
        table.split,
        columns.group,
        columns.time_column,
        columns.dates,
        columns.target,
        columns.decimal,
    )
    named = roles.columns
    for role, name in named.items():
        if name not in table.types:
            raise unknown(f"column (data.{_FIELDS.get(role, role)})", name, table.types)
    if list(named.values()).count(label) > 1:  # clients may well be domains
        raise MotetError(f"{table.where}: column {shown(label)} is named as label and otherwise; accepted: one of them")
    return roles


def left_out(table: Batches, columns: Columns, roles: Roles) -> set[str]:
    """The columns that a user does not want, by their names, or several in one text with commas."""
    found = set(_split(columns, table))
    if both := found & set(roles.columns.values()):
        raise MotetError(f"data.leave_out has {shown(both.pop())}, which is named for something else; accepted: others")
    return found


def _split(columns: Columns, table: Batches) -> Iterator[str]:
    for text in columns.leave_out:
        for name in [text] if text in table.types else [part.strip() for part in text.split(",")]:
            if name not in table.types:
                raise unknown("column (data.leave_out)", name, table.types)
            yield name


class RoleReader:
    """Reads the label, client and domain of all rows, batch by batch."""

    def __init__(self, roles: Roles):
        self.roles = roles
        given = {"label": roles.classes}
        most = _MOST if roles.target == "class" else {**_MOST, "label": MOST_CLIENTS}  # numbers may all differ
        self._names = {role: Names(most[role], given.get(role)) for role in roles.columns}
        self._parts: dict[str, list[Integers]] = {role: [] for role in roles.columns}
        self._kept: list[Truths] = []
        self._dropped: dict[str, int] = dict.fromkeys(roles.columns, 0)
        self._decided: str | None = None  # a sentence about a label of numbers, and what it was taken for

    def read(self, batch: RecordBatch) -> RecordBatch:
        """The next rows; given back are those that are kept, all of them unless holes are to be dropped."""
        kept = self._complete(batch) if self.roles.drop_missing else np.ones(batch.num_rows, bool)
        self._kept.append(kept)
        batch = batch if kept.all() else batch.filter(as_arrow(kept))
        for role, column in self.roles.columns.items():
            self._parts[role].append(self._names[role].read(strings(batch.column(column), column, self.roles.where)))
        return batch

    def _complete(self, batch: RecordBatch) -> Truths:
        """Which rows lack nothing; a row is counted under the first thing that it lacks."""
        kept = np.ones(batch.num_rows, bool)
        for role, column in self.roles.columns.items():
            holes = kept & are_missing(strings(batch.column(column), column, self.roles.where))
            self._dropped[role] += int(holes.sum())
            kept &= ~holes
        return kept

    @property
    def notes(self) -> tuple[str, ...]:
        """Return a sentence about the rows that were dropped, if any were."""
        said = [f"{count:,} without a {role}" for role, count in self._dropped.items() if count]
        rows = sum(map(len, self._kept))
        total = sum(self._dropped.values())
        dropped = (f"{total:,} of {rows:,} rows were dropped: {', '.join(said)}",) if said else ()
        return dropped if self._decided is None else (*dropped, self._decided)

    def fields(self, numbers: bool = False) -> dict[str, Any]:
        """Return the fields of `RawData` that the roles give; to be called after the last row.

        With `numbers`, the label may be a number to predict.
        """
        target = self.targets() if self.is_number and numbers else None
        if self.roles.target == "number" and not numbers:
            raise MotetError(
                f"{self.roles.where}: data.target is number, but its samples are no rows of a table; accepted: class"
            )
        y, classes = self._labels() if target is None else (_tenths(target), ())
        if numbers and self._names["label"].grows and self.roles.target == "auto" and len(classes) > FEW:
            self._decided = self._of_many_classes(classes)
        client, clients = self._numbers("client")
        domain, domains = self._numbers("domain")
        if client is not None and len(clients) < 2:
            raise MotetError(
                f"{self.roles.where}: column {shown(self.roles.client)} names only client {shown(clients[0])}; "
                f"accepted: at least two, or no data.client"
            )
        named = {"class_names": classes, "client_names": clients, "domain_names": domains}
        split = self.roles.split()[np.concatenate(self._kept)] if self.roles.split else None
        found: dict[str, Any] = {"y": y, "classes": len(classes), "client": client, "domain": domain, **named}
        if target is not None:
            found |= {"classes": int(y.max()) + 1, "target": target}
        found |= {"group": self._numbers("group")[0], "time": self._times()}
        return found if split is None or not split.any() else {**found, "split": split}

    @property
    def is_number(self) -> bool:
        """Return whether the label is a number to predict; to be called after the last row."""
        names = self._names["label"]
        if self.roles.target != "auto" or not names.grows:
            return self.roles.target == "number"
        texts = list(names.numbers)
        return are_measurements(texts, sum(map(len, self._parts["label"]))) and len(numbers_among(texts)) == len(texts)

    def targets(self) -> npt.NDArray[np.float64]:
        """Return the label of each row as a number; raise a `MotetError` for what is none."""
        places, texts = self._whole("label"), list(self._names["label"].numbers)
        column = f"{self.roles.where}: column {shown(self.roles.label)}"
        if all(map(is_plain, texts)):
            values = np.array([float(text) for text in texts])
        else:
            notation = notation_of(texts, self.roles.decimal, str(self.roles.label), self.roles.where)
            wrong = next(text for text in texts if not is_plain(text))
            if notation is None:
                raise MotetError(f"{column} holds {shown(wrong)}, but data.target is number; accepted: numbers alone")
            values = np.array([notation.value(text) for text in texts])
        if not (np.abs(values) <= LARGEST).all():
            raise MotetError(f"{column} holds a number beyond {LARGEST:g}; accepted: smaller ones")
        if len(np.unique(values)) < 2:
            raise MotetError(f"{column} holds only the number {shown(texts[0])}; accepted: at least two")
        if self.roles.target == "auto" and self.roles.classes is None:
            self._decided = (
                f"column {shown(self.roles.label)} holds {len(texts):,} different numbers and is predicted as a "
                f"number; --target class makes classes of them"
            )
        return values[places]

    def _of_many_classes(self, classes: tuple[str, ...]) -> str | None:
        """Return a sentence about classes that may be meant as numbers, such as scores."""
        if len(numbers_among(classes)) < len(classes):
            return None
        return (
            f"column {shown(self.roles.label)} holds {len(classes)} different whole numbers and is predicted as "
            f"classes; --target number predicts it as a number"
        )

    def labels_as_listed(self) -> Integers:
        """The classes of all rows; one that is not on a list that was given is refused."""
        names = self._names["label"]
        y = self._whole("label")
        if names.refused is not None:
            raise MotetError(
                f"{self.roles.where}: column {shown(self.roles.label)} holds {shown(names.refused)}; accepted: the "
                f"classes that are listed, {', '.join(map(shown, names.numbers))}"
            )
        return y

    def _labels(self) -> tuple[Integers, tuple[str, ...]]:
        column, names = f"{self.roles.where}: column {shown(self.roles.label)}", self._names["label"]
        y = self.labels_as_listed()
        classes, places = names.sorted()
        if bool((y == y[0]).all()):
            raise MotetError(f"{column} holds only label {shown(classes[int(y[0])])}; accepted: at least two classes")
        if len(classes) > MOST_CLASSES:
            raise MotetError(f"{column} holds more than {MOST_CLASSES} different values; accepted: fewer")
        if names.grows and self.roles.target == "auto":  # who lists classes means them
            refuse_measurements(classes, len(y), column)
        return places[y], classes

    def _numbers(self, role: str) -> tuple[Integers | None, tuple[str, ...]]:
        if role not in self._names:
            return None, ()
        names, places = self._names[role].sorted()
        return places[self._whole(role)], names

    def _times(self) -> npt.NDArray[np.float64] | None:
        """Return the times of all rows, as numbers or as days."""
        if "time" not in self._names:
            return None
        places, texts = self._whole("time"), list(self._names["time"].numbers)
        if all(map(is_plain, texts)):
            return np.array([float(text) for text in texts])[places]
        order = order_of(texts, self.roles.dates, str(self.roles.time), self.roles.where)
        if order is None:
            wrong = next((text for text in texts if not is_plain(text)), texts[0])
            raise MotetError(
                f"{self.roles.where}: column {shown(self.roles.time)} (data.time_column) holds {shown(wrong)}; "
                f"accepted: numbers, or dates that are all written in one way, such as 2020-12-31 or 31.12.2020"
            )
        return np.array([days_of(text, order) for text in texts])[places]

    def _whole(self, role: str) -> Integers:
        """Return the numbers of all rows; raise a `MotetError` if one is missing."""
        names, column = self._names[role], shown(self.roles.columns[role])
        if names.too_many:
            raise MotetError(
                f"{self.roles.where}: column {column} holds more than {names.most} different values; accepted: fewer"
            )
        numbers = np.concatenate([*self._parts[role], np.zeros(0, np.int64)])
        if not len(numbers):
            left = "no row with all that is named" if sum(self._dropped.values()) else "no rows"
            raise MotetError(f"{self.roles.where}: holds {left}; accepted: a table with a header line and rows")
        holes = np.flatnonzero(numbers == MISSING_NAME)
        if len(holes):
            raise MotetError(
                f"{self.roles.where}: column {column} has no {role} in {len(holes)} of {len(numbers)} rows, first in "
                f"row {holes[0] + 1}; accepted: a {role} in every row, or --drop-missing (data.drop_missing) to leave "
                f"such rows out"
            )
        return numbers


_PIECES = 10


def _tenths(target: npt.NDArray[np.float64]) -> Integers:
    """Return for each number in which tenth of all it is, by which partitions deal numbers as they deal classes."""
    edges = np.unique(np.quantile(target, np.arange(1, _PIECES) / _PIECES))
    _, tenths = np.unique(np.searchsorted(edges, target, side="right"), return_inverse=True)
    return tenths.astype(np.int64)


# -------- Columns that number the rows, from which nothing can be learned


class Numbering:
    """Whether a column of numbers seems to number the rows: whole, all different, and a count or called an id."""

    def __init__(self, name: str):
        self.called = re.search(r"(^|[\W_])id$|[a-z]I[dD]$", name, re.ASCII) is not None or name.lower() == "id"
        self.possible, self.rows = True, 0
        self.low, self.high = np.inf, -np.inf

    def see(self, values: npt.NDArray[np.float64]) -> None:
        """Take note of the values of the next rows."""
        if not self.possible or not len(values):
            return
        self.possible = bool((values % 1 == 0).all()) and len(np.unique(values)) == len(values)
        self.rows += len(values)
        self.low, self.high = min(self.low, values.min()), max(self.high, values.max())

    @property
    def is_one(self) -> bool:
        """Return whether the column numbers the rows; to be called after the last row."""
        counts = self.high - self.low + 1 == self.rows
        return self.possible and self.rows >= FEW and (counts or self.called)
