"""The schema of a table: what its columns are, and how their values become network input. A small file of TOML.

It is fitted on training rows, or written by people and shared before anybody sees data.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from motet.config.section import Section, checked
from motet.config.toml import dumps
from motet.errors import MotetError, shown
from motet.io.user_paths import read_small, shown_path, user_path

MOST_BYTES = 2**24
MOST_COLUMNS = 100_000
MOST_CLASSES = 65_536
MOST_CATEGORIES = 65_536
MOST_RATIO = 1e12
"""Of a mean to its deviation: what is left of a number beyond it is rounding."""
MOST_PLACES = 1_000_000
"""Of network input, over all columns: a net would have a weight for each and each of its units."""

_HEAD = """\
# How a table becomes network input. Columns that are not here are not used.
# A number becomes (number - mean) / deviation, a boolean 0 or 1, a category one place for each of `categories`.
# A number with `knots` becomes the value of `levels` at its place between them, linear in between.
# A date is a number of days since 2000-01-01; `order` says how texts such as 03/04/2020 are read: ymd, dmy or mdy.
# A value that is missing counts as `fill`; without it, a number as its mean, a boolean as false, a category as none.
# With `indicator` there is one more input, which is 1 where the value is missing.
# A category that is not listed counts as none, 0 in all places; with `other` it has a place of its own.

"""

MOST_KNOTS = 64
Order = Literal["ymd", "dmy", "mdy"]
"""In which order a date in text has its year, month and day."""


class ScaledColumn(Section):
    """What a column of numbers and one of dates share: values are centred and scaled, or mapped by knots."""

    mean: float = Field(0.0, strict=True)
    deviation: float = Field(1.0, gt=0, strict=True)
    fill: float | None = Field(None, strict=True)
    indicator: bool = Field(False, strict=True)
    knots: tuple[float, ...] = ()
    """Values in rising order; below the first and above the last, the map is constant."""
    levels: tuple[float, ...] = ()
    """What each knot becomes."""

    @property
    def width(self) -> int:
        """Return how many places of the network input it makes."""
        return 1 + self.indicator


class NumberColumn(ScaledColumn):
    """A column of numbers."""

    kind: Literal["number"] = "number"


class DateColumn(ScaledColumn):
    """A column of dates, with or without a time of day, as days since 2000-01-01."""

    kind: Literal["date"] = "date"
    order: Order = "ymd"


class BooleanColumn(Section):
    """A column of true and false, as 1 and 0."""

    kind: Literal["boolean"] = "boolean"
    fill: bool | None = Field(None, strict=True)
    indicator: bool = Field(False, strict=True)

    @property
    def width(self) -> int:
        """Return how many places of the network input it makes."""
        return 1 + self.indicator


class CategoryColumn(Section):
    """A column of names, each of which has a place of its own in the input."""

    kind: Literal["category"] = "category"
    categories: tuple[str, ...] = Field(min_length=1)
    fill: str | None = None
    other: bool = Field(False, strict=True)
    """Whether names that are not listed have a place together; without it they are 0 in all places."""
    indicator: bool = Field(False, strict=True)
    """Whether a missing value has a place of its own."""

    @property
    def width(self) -> int:
        """Return how many places of the network input it makes."""
        return len(self.categories) + self.other + self.indicator


class NumberTarget(Section):
    """A label that is a number: nets predict (number - mean) / deviation."""

    mean: float = Field(0.0, strict=True)
    deviation: float = Field(1.0, gt=0, strict=True)

    def scaled(self, y: Tensor) -> Tensor:
        """Return numbers as a net predicts them."""
        return ((y.double() - self.mean) / self.deviation).to(torch.float32)

    def unscaled(self, outputs: Tensor) -> Tensor:
        """Return what a net predicts in the unit of the numbers."""
        return outputs.double() * self.deviation + self.mean


Column = NumberColumn | DateColumn | BooleanColumn | CategoryColumn
COLUMNS: dict[str, type[Column]] = {
    "number": NumberColumn,
    "date": DateColumn,
    "boolean": BooleanColumn,
    "category": CategoryColumn,
}
_LEFT_OUT_IF_EMPTY = ("indicator", "other", "knots", "levels")


def _written(column: Column) -> dict[str, Any]:
    """Return a column as plain values, its kind first, without what it does not have."""
    values = column.model_dump()
    ordered = {"kind": values.pop("kind"), **values}
    return {name: value for name, value in ordered.items() if value or name not in _LEFT_OUT_IF_EMPTY}


@dataclass(frozen=True)
class Schema:
    """The columns by name, in the order of the samples, and the names of the classes."""

    label: str
    classes: tuple[str, ...]
    columns: Mapping[str, Column] = field(default_factory=dict)
    target: NumberTarget | None = None
    """How the label is scaled where it is a number; there are no classes then."""

    @property
    def _label(self) -> dict[str, Any]:
        if self.target is not None:
            return {"label": self.label, "target": self.target.model_dump()}
        return {"label": self.label, "classes": self.classes}

    def to_toml(self) -> str:
        """Return the schema as TOML that can be edited and read again."""
        columns = {name: _written(column) for name, column in self.columns.items()}
        return _HEAD + dumps({**self._label, "columns": columns})

    def plain(self) -> dict[str, Any]:
        """Return the schema as JSON can hold it; columns are pairs, so that their order stays."""
        columns = [[name, _written(column)] for name, column in self.columns.items()]
        return {**self._label, "columns": columns}


def of_plain(values: Mapping[str, Any]) -> Schema:
    """Return the schema that `plain` wrote; raise `MotetError` or `ValueError` for anything else."""
    return of_values({**values, "columns": {name: column for name, column in values["columns"]}}, "schema")


def read_schema(text: str) -> Schema:
    """Return the schema in a file; raise a `MotetError` that says what is wrong with it."""
    path = user_path(text, "data.table_schema")
    what = f"schema {shown_path(path)}"
    try:
        return of_values(tomllib.loads(read_small(path, MOST_BYTES, what).decode()), what)
    except FileNotFoundError:
        raise MotetError(f"{what} does not exist; accepted: a file that `motet data schema` wrote") from None
    except OSError as error:
        raise MotetError(f"{what} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise MotetError(f"{what} is not text in UTF-8 (byte {error.start})") from None
    except (ValueError, RecursionError) as error:
        raise MotetError(
            f"{what} is not valid TOML ({shown(str(error))}); accepted: as `motet data schema` writes it"
        ) from error


def of_values(values: Mapping[str, Any], where: str) -> Schema:
    """A schema of plain values, each looked at; `where` names their origin in the sentence."""
    if unknown := values.keys() - {"label", "classes", "target", "columns"}:
        raise MotetError(
            f"{where} has the field {shown(sorted(unknown)[0])}; accepted: label, classes, columns, or target instead "
            f"of classes"
        )
    label, classes, columns = values.get("label"), values.get("classes"), values.get("columns")
    target = _target(values, where)
    if not isinstance(label, str) or not label:
        raise MotetError(f"{where}: label is {shown(label)}; accepted: the name of a column")
    if target is None and (classes is None or not _are_names(classes) or len(classes) < 2):
        raise MotetError(f"{where}: classes is {shown(classes)}; accepted: two or more names, each once")
    classes = () if classes is None else classes
    if len(classes) > MOST_CLASSES:
        raise MotetError(f"{where}: classes has {len(classes):,} names; accepted: at most {MOST_CLASSES:,}")
    if not isinstance(columns, Mapping) or not 0 < len(columns) <= MOST_COLUMNS:
        raise MotetError(f"{where}: columns is {shown(columns)}; accepted: a table [columns.NAME] for each column")
    if label in columns:
        raise MotetError(f"{where}: column {shown(label)} is the label; accepted: other columns")
    found = {name: _column(name, column, where) for name, column in columns.items()}
    schema = Schema(label, tuple(classes), found, target)
    places = sum(column.width for column in schema.columns.values())
    if places > MOST_PLACES:
        raise MotetError(f"{where}: columns make {places:,} places of input; accepted: at most {MOST_PLACES:,}")
    return schema


def _target(values: Mapping[str, Any], where: str) -> NumberTarget | None:
    found = values.get("target")
    if found is None:
        return None
    if "classes" in values:
        raise MotetError(f"{where} has classes and target; accepted: target for a number, classes for a name")
    if not isinstance(found, Mapping):
        raise MotetError(f"{where}: target is {shown(found)}; accepted: a table with mean and deviation")
    return checked(NumberTarget, found, f"{where}: target")


def _column(name: object, values: object, where: str) -> Column:
    place = f"{where}: column {shown(name)}"
    if not isinstance(name, str) or not isinstance(values, Mapping):
        raise MotetError(f"{place} is {shown(values)}; accepted: a table with kind = {' | '.join(COLUMNS)}")
    section = COLUMNS.get(str(values.get("kind")))
    if section is None:
        raise MotetError(f"{place}: kind is {shown(values.get('kind'))}; accepted: {' | '.join(COLUMNS)}")
    column = checked(section, values, place)
    if isinstance(column, ScaledColumn) and abs(column.mean) > MOST_RATIO * column.deviation:
        raise MotetError(
            f"{place}: mean is {column.mean:g} and deviation {column.deviation:g}; accepted: a mean of at most "
            f"{MOST_RATIO:g} deviations"
        )
    if isinstance(column, ScaledColumn):
        _check_knots(column, place)
    if isinstance(column, CategoryColumn):
        if column.fill is not None and column.indicator:
            raise MotetError(f"{place}: indicator is true beside fill {shown(column.fill)}; accepted: one of them")
        if len(column.categories) > MOST_CATEGORIES:
            raise MotetError(
                f"{place}: categories has {len(column.categories):,} names; accepted: at most {MOST_CATEGORIES:,}"
            )
        if not _are_names(column.categories):
            raise MotetError(f"{place}: categories is {shown(column.categories)}; accepted: names, each once")
        if column.fill is not None and column.fill not in column.categories:
            raise MotetError(f"{place}: fill is {shown(column.fill)}; accepted: one of its categories, or left out")
    return column


def _check_knots(column: ScaledColumn, place: str) -> None:
    knots, levels = column.knots, column.levels
    if len(knots) != len(levels) or len(knots) == 1 or len(knots) > MOST_KNOTS:
        raise MotetError(
            f"{place}: knots has {len(knots)} numbers and levels {len(levels)}; accepted: as many of both, 2 to "
            f"{MOST_KNOTS}, or none"
        )
    for name, found in (("knots", knots), ("levels", levels)):
        if any(a >= b for a, b in pairwise(found)):
            raise MotetError(f"{place}: {name} is {shown(found)}; accepted: numbers that rise")


def _are_names(found: Any) -> bool:
    names = isinstance(found, list | tuple) and all(isinstance(name, str) for name in found)
    return names and len(set(found)) == len(found)
