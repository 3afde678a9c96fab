"""How the columns of a table become network input, found from training rows: scales, knots, places, indicators.

One rule holds for every place of the input that stands for some of the rows, be it a category, all rare categories
together or a missing value: it is there if at least `min_count` training rows have it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from motet.config.data_section import Numbers
from motet.data.prepare import Normalize
from motet.data.readers.raw import Array
from motet.data.schema import BooleanColumn, CategoryColumn, DateColumn, NumberColumn, Order

SMALLEST_DEVIATION = 1e-12
"""Of numbers that are not all the same but for rounding."""
NOBODY = "(none)"
"""The one category of a column in whose list nothing is left."""
KNOTS = 32
MOST_SKEWNESS, MOST_KURTOSIS = 2.0, 10.0
"""Of columns that are scaled by mean and deviation: an exponential distribution has a skewness of 2 and a kurtosis of
9, a normal one 0 and 3. One value far from all others raises both beyond."""
FEW_VALUES = 10
"""Different numbers that are codes or counts rather than measurements; they keep their distances."""
_CHUNK = 10_000


@dataclass(frozen=True)
class Fitting:
    """The choices by which columns are fitted."""

    normalize: Normalize = "standard"
    numbers: Numbers = "auto"
    min_count: int = 1
    indicators: bool = True


def fit_number(values: Array, how: Fitting) -> NumberColumn:
    """Return a column of numbers that is fitted on these values, of which NaN are missing."""
    return NumberColumn(**_fitted(values, how))


def fit_date(values: Array, how: Fitting, order: Order) -> DateColumn:
    """Return a column of dates that is fitted on these days."""
    return DateColumn(**_fitted(values, how), order=order)


def fit_boolean(values: Array, how: Fitting) -> BooleanColumn:
    """Return a column of truths; a missing one counts as the more frequent."""
    more = bool(np.count_nonzero(values == 1) > np.count_nonzero(values == 0))
    return BooleanColumn(fill=more, indicator=_indicator(values, how))


def fit_category(values: Array, listed: Sequence[str], how: Fitting) -> CategoryColumn:
    """Return a column with the categories that enough training rows hold; where there is none, one that stays 0."""
    places, counts = np.unique(values[values >= 0], return_counts=True)
    often = counts >= how.min_count
    seen = places[often].astype(np.int64)
    return CategoryColumn(
        categories=tuple(listed[place] for place in seen) or (NOBODY,),
        other=_enough(int(counts[~often].sum()), how),
        indicator=_indicator(values, how),
    )


def _enough(rows: int, how: Fitting) -> bool:
    return rows >= max(1, how.min_count)


def _indicator(values: Array, how: Fitting) -> bool:
    missing = int(np.count_nonzero(np.isnan(values)))
    return how.indicators and _enough(missing, how) and missing < len(values)


def _fitted(values: Array, how: Fitting) -> dict[str, Any]:
    mean, deviation = moments(values)
    common = {"indicator": _indicator(values, how)}
    if how.normalize not in ("standard", "half"):  # a column has no range to halve
        return {"mean": 0.0, "deviation": 1.0, "fill": mean, **common}
    fitted: dict[str, Any] = {"mean": mean, "deviation": deviation, "fill": mean, **common}
    if how.numbers == "standard":
        return fitted
    there = np.sort(values[~np.isnan(values)])
    different = np.unique(there)
    if len(different) <= FEW_VALUES or (how.numbers == "auto" and not _far_from_normal(there, mean, deviation)):
        return fitted
    knots, levels = _knots(there, different, how.min_count)
    if len(knots) < 2:
        return fitted
    return {**fitted, "fill": float(np.median(there)), "knots": tuple(knots), "levels": tuple(levels)}


def _far_from_normal(values: Array, mean: float, deviation: float) -> bool:
    """Return whether values are skewed or have heavy tails, so that few of them would decide the scale of all."""
    third = fourth = 0.0
    for at in range(0, len(values), _CHUNK):
        z = (values[at : at + _CHUNK].astype(np.float64) - mean) / deviation
        third, fourth = third + float((z**3).sum()), fourth + float((z**4).sum())
    return abs(third / len(values)) > MOST_SKEWNESS or fourth / len(values) > MOST_KURTOSIS


def _knots(values: Array, different: Array, min_count: int) -> tuple[list[float], list[float]]:
    """Return knots and their levels: normal quantiles of the ranks, of mean 0 and deviation 1 over these values.

    Half of the knots are quantiles of the rows and half of the different values, so that a column of many zeros keeps
    its other values apart. Beyond the outer knots lie fewer than `min_count` rows, of which nothing is told. All values
    are sorted.
    """
    aside = min(max(1, min_count), (len(values) + 1) // 2) - 1  # rows at each end that are no knots
    inner = different[(different >= values[aside]) & (different <= values[len(values) - 1 - aside])]
    spread = np.linspace(0, 1, KNOTS // 2)
    of_rows = values[(aside + spread * (len(values) - 1 - 2 * aside)).round().astype(np.int64)]
    of_values = inner[(spread * (len(inner) - 1)).round().astype(np.int64)]
    knots = np.unique(np.concatenate([of_rows, of_values]))
    below, upto = np.searchsorted(values, knots, "left"), np.searchsorted(values, knots, "right")
    ranks = (below + upto) / (2 * len(values))
    levels = np.array([NormalDist().inv_cdf(rank) for rank in ranks])
    mapped = np.interp(values, knots, levels)
    mean, deviation = moments(mapped)
    return [float(knot) for knot in knots], [float(level) for level in (levels - mean) / deviation]


def moments(values: Array) -> tuple[float, float]:
    """Return mean and deviation of the values that are there, in chunks to spare memory."""
    chunks = [slice(at, at + _CHUNK) for at in range(0, len(values), _CHUNK)]
    there = sum(int(np.count_nonzero(~np.isnan(values[chunk]))) for chunk in chunks)
    if not there:
        return 0.0, 1.0
    mean = sum(float(np.nansum(values[chunk], dtype=np.float64)) for chunk in chunks) / there
    squares = sum(float(np.nansum((values[chunk].astype(np.float64) - mean) ** 2)) for chunk in chunks)
    deviation = float(np.sqrt(squares / there))
    return mean, deviation if deviation > SMALLEST_DEVIATION * max(1.0, abs(mean)) else 1.0
