"""A schema fitted over sites that show nobody their rows: each writes sums of its columns, and the sums are merged.

The file of a site is small and in plain words: people look at it before they send it, and by sending it they consent.
It has no category that fewer than `min_count` of the site's rows hold, and no number of a single row.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from motet.config.data_section import DataSettings
from motet.data.fit_columns import SMALLEST_DEVIATION
from motet.data.prepare_table import TablePrepare
from motet.data.schema import BooleanColumn, CategoryColumn, Column, DateColumn, NumberColumn, Order, Schema
from motet.data.sources import load
from motet.errors import MotetError, shown
from motet.io.json_models import Count, FileModel, Number, Text

LEAST_ROWS = 5
"""Rows of a site of which a mean may be told."""


class NumberSums(FileModel):
    """Of a column of numbers or dates: how many rows have one, their mean, and the sum of squares around it."""

    kind: Literal["number", "date"]
    order: Order = "ymd"
    count: Count
    missing: Count
    mean: Number
    squares: Annotated[float, Field(ge=0)]


class BooleanSums(FileModel):
    """Of a column of truths: how many are true, false and missing."""

    kind: Literal["boolean"]
    true: Count
    false: Count
    missing: Count


class CategorySums(FileModel):
    """Of a column of names: how many rows hold each that enough rows hold, and how many hold rarer ones."""

    kind: Literal["category"]
    counts: dict[Text, Count]
    rare: Count
    missing: Count


ColumnSum = Annotated[NumberSums | BooleanSums | CategorySums, Field(discriminator="kind")]


class SiteSums(FileModel):
    """The file of one site."""

    rows: Annotated[int, Field(ge=LEAST_ROWS)]
    label: Text
    classes: tuple[Text, ...]
    min_count: Annotated[int, Field(ge=1)]
    columns: dict[Text, ColumnSum]


def sums_of_table(settings: DataSettings, path: Path) -> SiteSums:
    """Return the sums of a site's table; raise a `MotetError` for what is no table, or too small to tell of."""
    raw = load(settings.model_copy(update={"name": str(path), "client": None, "table_schema": None}))
    prepare = None if raw.fit is None else raw.fit(raw.x, "standard", np.arange(len(raw.y)))
    if not isinstance(prepare, TablePrepare):
        raise MotetError(f"{shown(str(path))} is no table; accepted: FILE.csv or FILE.parquet")
    if prepare.schema.target is not None:
        raise MotetError(
            f"the label {shown(prepare.schema.label)} is a number; accepted: classes, or one site's schema"
        )
    if len(raw.y) < LEAST_ROWS:
        raise MotetError(f"{path.name} has {len(raw.y)} rows; accepted: at least {LEAST_ROWS}, to tell sums of them")
    lists, found = iter(prepare.lists), dict[str, NumberSums | BooleanSums | CategorySums]()
    for i, (name, column) in enumerate(prepare.schema.columns.items()):
        values = raw.x[:, i].astype(np.float64)
        listed = next(lists) if isinstance(column, CategoryColumn) else ()
        found[name] = _summed(values, column, listed, settings.min_count)
    return SiteSums(
        rows=len(raw.y),
        label=prepare.schema.label,
        classes=prepare.schema.classes,
        min_count=settings.min_count,
        columns=found,
    )


def _summed(
    values: np.ndarray, column: Column, listed: Sequence[str], least: int
) -> NumberSums | BooleanSums | CategorySums:
    there = values[~np.isnan(values)]
    missing = len(values) - len(there)
    if isinstance(column, CategoryColumn):
        counts = {name: int((there == place).sum()) for place, name in enumerate(listed)}
        often = {name: count for name, count in counts.items() if count >= least}
        return CategorySums(kind="category", counts=often, rare=len(there) - sum(often.values()), missing=missing)
    if isinstance(column, BooleanColumn):
        true = int((there == 1).sum())
        return BooleanSums(kind="boolean", true=true, false=len(there) - true, missing=missing)
    mean = float(there.mean()) if len(there) >= LEAST_ROWS else 0.0
    squares = float(((there - mean) ** 2).sum()) if len(there) >= LEAST_ROWS else 0.0
    count = len(there) if len(there) >= LEAST_ROWS else 0  # of fewer rows nothing is told
    order: Order = column.order if isinstance(column, DateColumn) else "ymd"
    return NumberSums(
        kind=column.kind, order=order, count=count, missing=len(values) - count, mean=mean, squares=squares
    )


# -------- Merged


def merged_schema(sites: Mapping[str, SiteSums]) -> tuple[Schema, list[str]]:
    """Return the schema of the sums of several sites, by the names of their files, and notes about what is left out."""
    (first, told), *_ = sites.items()
    for name, site in sites.items():
        if site.label != told.label:
            raise MotetError(
                f"{name} has the label {shown(site.label)} and {first} {shown(told.label)}; accepted: one label"
            )
    classes = sorted({each for site in sites.values() for each in site.classes})
    columns, notes = dict[str, Column](), list[str]()
    for column in told.columns:
        without = [name for name, site in sites.items() if column not in site.columns]
        if without:
            notes.append(f"left out: column {shown(column)}, of which {without[0]} tells nothing")
            continue
        columns[column] = _merged(column, {name: site.columns[column] for name, site in sites.items()}, told.min_count)
    more = {each for site in sites.values() for each in site.columns} - told.columns.keys()
    notes += [f"left out: column {shown(each)}, of which {first} tells nothing" for each in sorted(more)]
    if not columns:
        raise MotetError("no column is told of by all sites; accepted: tables with the same columns")
    return Schema(told.label, tuple(classes), columns), notes


def _merged(name: str, sums: Mapping[str, NumberSums | BooleanSums | CategorySums], least: int) -> Column:
    kinds = {each.kind: site for site, each in sums.items()}
    if len(kinds) > 1:
        said = " and ".join(f"{kind} in {site}" for kind, site in sorted(kinds.items()))
        raise MotetError(f"column {shown(name)} is {said}; accepted: one kind at all sites")
    indicator = sum(each.missing for each in sums.values()) >= least
    numbers = [each for each in sums.values() if isinstance(each, NumberSums)]
    if numbers:
        return _merged_numbers(name, numbers, indicator)
    truths = [each for each in sums.values() if isinstance(each, BooleanSums)]
    if truths:
        more = sum(each.true for each in truths) > sum(each.false for each in truths)
        return BooleanColumn(fill=more, indicator=indicator)
    named = [each for each in sums.values() if isinstance(each, CategorySums)]
    categories = sorted({category for each in named for category in each.counts})
    rare = sum(each.rare for each in named) >= least
    return CategoryColumn(categories=tuple(categories) or ("(none)",), other=rare, indicator=indicator)


def _merged_numbers(name: str, sums: Sequence[NumberSums], indicator: bool) -> Column:
    """Return the column with mean and deviation over all sites' rows, from each site's count, mean and squares."""
    count = sum(each.count for each in sums)
    if len({each.order for each in sums}) > 1:
        raise MotetError(f"column {shown(name)} has dates in several orders; accepted: one order at all sites")
    mean = sum(each.count * float(each.mean) for each in sums) / count if count else 0.0
    squares = sum(each.squares + each.count * (float(each.mean) - mean) ** 2 for each in sums)
    deviation = math.sqrt(squares / count) if count else 1.0
    deviation = deviation if deviation > SMALLEST_DEVIATION * max(1.0, abs(mean)) else 1.0
    if sums[0].kind == "date":
        return DateColumn(mean=mean, deviation=deviation, fill=mean, indicator=indicator, order=sums[0].order)
    return NumberColumn(mean=mean, deviation=deviation, fill=mean, indicator=indicator)
