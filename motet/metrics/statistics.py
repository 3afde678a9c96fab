"""Intervals and significance: the one place that computes them, for every table, page and study.

A method's values are a table with a row per client and a column per seed. Both vary by chance: other clients, another
training. The variance of the mean is the sum of two parts, over clients and over seeds, each in closed form: s²/n of
the means along the other axis. What both have in common is counted twice, so that intervals are rather too wide. They
use Student's distribution with the degrees of freedom of both parts together (Welch and Satterthwaite).
Differences of two methods are paired over clients and seeds.

Where the columns are several random splits of the same rows, they are no independent repeats: their training rows
overlap, and many more splits of the same few rows would not tell more about other rows. The variance of a mean over J
splits is then (1/J + test rows / training rows) s² instead of s²/J (Nadeau and Bengio, 2003).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil, sqrt
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

LEVEL = 0.95
CONTROL = "fedavg+ft"
"""The method that others are compared with, fixed before any result is seen: fine-tuning often wins."""
NORMAL = NormalDist().inv_cdf((1 + LEVEL) / 2)
SHOWN = 5e-4
"""Half the last digit that a table shows of a share: values closer than this look equal."""
_NOTHING = 1e-12  # rounding error of sums of the same shares

Table = npt.NDArray[np.float64]  # clients × seeds


@dataclass(frozen=True)
class Estimate:
    """A mean over clients and seeds, its interval, and its p-value: the chance of such a mean if the true one is 0."""

    mean: float
    low: float | None
    high: float | None
    p: float | None

    @property
    def interval(self) -> list[float] | None:
        """The two bounds as a list, for JSON; None where there are none."""
        return None if self.low is None or self.high is None else [self.low, self.high]


@dataclass(frozen=True)
class Resplits:
    """How often the rows were split anew: a table's columns are the runs of the first split, then of the second, …"""

    splits: int = 1
    ratio: float = 0.0  # test rows per training row

    def by_split(self, table: Table) -> Table:
        """Return the mean over clients and seeds on each split; with one split, the mean of each seed."""
        by_run: Table = table.mean(0)
        return by_run.reshape(self.splits, -1).mean(1) if self.splits > 1 else by_run

    def parts(self, table: Table) -> list["_Part"]:
        """Return what the variance of a table's mean consists of: the part over clients and that over runs."""
        over_runs = self.by_split(table)
        shared = self.ratio if self.splits > 1 else 0.0
        both = (_Part(table.mean(1)), _Part(over_runs, 1 + shared * len(over_runs)))
        return [part for part in both if len(part.means) > 1]


ONE_SPLIT = Resplits()


@dataclass(frozen=True)
class _Part:
    """Means whose mean varies by chance; the factor says how many times as much as if they were independent."""

    means: Table
    factor: float = 1.0

    @property
    def variance(self) -> float:
        return self.factor * float(self.means.var(ddof=1)) / len(self.means)


def estimate(table: Table, resplits: Resplits = ONE_SPLIT) -> Estimate:
    """Return the estimate of one method's values or of the differences of two; no interval for a single value."""
    return _with_variances(float(table.mean()), resplits.parts(table))


def apart(a: Sequence[float], b: Sequence[float]) -> Estimate:
    """Return the difference of the means of a and b, whose values are not paired, with Welch's interval."""
    parts = [_Part(np.array(each)) for each in (a, b)] if min(len(a), len(b)) > 1 else []
    return _with_variances(float(np.mean(a) - np.mean(b)), parts)


def _with_variances(mean: float, parts: Sequence[_Part]) -> Estimate:
    """Return an estimate whose variance is the sum of these parts."""
    from scipy.stats import t as student  # type: ignore[import-untyped]

    if not parts:
        return Estimate(mean, None, None, None)
    variances = [part.variance for part in parts]
    error = sqrt(sum(variances))
    if error < _NOTHING:  # the same value for every client and seed
        return Estimate(mean, mean, mean, 1.0 if abs(mean) < _NOTHING else 0.0)
    freedom = sum(variances) ** 2 / sum(v**2 / (len(part.means) - 1) for v, part in zip(variances, parts, strict=True))
    reach = float(student.ppf((1 + LEVEL) / 2, freedom)) * error
    return Estimate(mean, mean - reach, mean + reach, float(2 * student.sf(abs(mean) / error, freedom)))


def growth_needed(table: Table, margin: float, resplits: Resplits = ONE_SPLIT) -> float | None:
    """Return how many times as many clients or rows would make the interval of a mean no wider than ± `margin`.

    None for a single value. The interval shrinks with the root of what it rests on.
    """
    parts = resplits.parts(table)
    return sum(part.variance for part in parts) * (NORMAL / margin) ** 2 if parts else None


def splits_needed(table: Table, margin: float, resplits: Resplits) -> int | None:
    """Return how many splits of the same rows would make the interval no wider than ± `margin`; None if none would.

    More splits leave what the clients differ by as it is, and what all splits of the same rows have in common.
    """
    by_split = resplits.by_split(table)
    if resplits.splits < 2:
        return None
    varies = float(by_split.var(ddof=1))
    clients = _Part(table.mean(1)).variance if len(table) > 1 else 0.0
    left = (margin / NORMAL) ** 2 - clients - resplits.ratio * varies
    return ceil(varies / left) if left > 0 else None


def accuracy(table: Table, resplits: Resplits = ONE_SPLIT) -> Estimate:
    """Return the estimate of shares such as accuracies, with its interval cut to 0 and 1."""
    found = estimate(table, resplits)
    if found.low is None or found.high is None:
        return found
    return Estimate(found.mean, max(0.0, found.low), min(1.0, found.high), found.p)


Pair = tuple[str, str]


@dataclass(frozen=True)
class Differences:
    """The differences of all pairs of methods, with p-values after Holm's correction for all that are compared.

    For the control, which was named before the results were seen, these are its differences to the other methods. Any
    other difference is corrected for all pairs, because the leader is known only from the results.
    """

    pairs: Mapping[Pair, Estimate]
    adjusted: Mapping[Pair, float]

    def of(self, a: str, b: str) -> Estimate:
        """Return the estimate of a minus b."""
        if (a, b) in self.pairs:
            return self.pairs[a, b]
        back = self.pairs[b, a]
        low, high = (None if bound is None else -bound for bound in (back.high, back.low))
        return Estimate(-back.mean, low, high, back.p)

    def certain(self, a: str, b: str) -> bool:
        """Return whether the two differ significantly after the correction."""
        return self.adjusted.get((a, b), self.adjusted.get((b, a), 1.0)) < 1 - LEVEL

    def known(self, a: str, b: str) -> bool:
        """Return whether their difference has an interval."""
        return self.of(a, b).p is not None

    def may_be_equal(self, a: str, b: str) -> bool:
        """Return whether the interval of this difference contains 0."""
        p = self.of(a, b).p
        return p is None or p >= 1 - LEVEL


def differences(tables: Mapping[str, Table], control: str = CONTROL, resplits: Resplits = ONE_SPLIT) -> Differences:
    """Return the differences of all pairs of methods, paired over clients and seeds."""
    pairs = {(a, b): estimate(tables[a] - tables[b], resplits) for a, b in combinations(tables, 2)}
    return corrected(pairs, control)


def corrected(pairs: Mapping[Pair, Estimate], control: str = CONTROL) -> Differences:
    """Return these differences with Holm's correction."""
    known = {pair: found.p for pair, found in pairs.items() if found.p is not None}
    beside = {pair: p for pair, p in known.items() if control in pair}
    return Differences(pairs, _corrected(known) | _corrected(beside))


def _corrected(ps: Mapping[Pair, float]) -> dict[Pair, float]:
    return dict(zip(ps, holm(list(ps.values())), strict=True))


def holm(ps: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p-values, in the order given."""
    adjusted, largest = [0.0] * len(ps), 0.0
    for rank, i in enumerate(sorted(range(len(ps)), key=lambda i: ps[i])):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[i]))
        adjusted[i] = largest
    return adjusted


def share_error(share: float, samples: int) -> float:
    """Return the standard error of a share of so many samples; 0 where they are not known or it is no share."""
    return sqrt(share * (1 - share) / samples) if samples and 0 < share < 1 else 0.0


def tied(a: float, b: float, samples: int = 0) -> bool:
    """Return whether two shares look equal: the same in a table, or no more than one sample apart.

    Models that differ by rounding alone may answer a borderline sample differently.
    """
    return abs(a - b) <= max(SHOWN, 1 / samples if samples else 0.0)


def paired_interval(righted: int, wronged: int, samples: int) -> tuple[float, float]:
    """Return the 95 % interval of a difference of two shares of the same samples (Agresti and Min, 2005).

    Half a sample is added to each of the four outcomes; without that it would be too narrow for few samples.
    """
    n, difference = samples + 2, righted - wronged
    middle = difference / n
    reach = NORMAL * sqrt(righted + wronged + 1 - difference**2 / n) / n
    return max(-1.0, middle - reach), min(1.0, middle + reach)


def unpaired_interval(share: float, other: float, samples: int) -> tuple[float, float]:
    """Return the 95 % interval of a difference of two shares of so many samples each (Agresti and Caffo, 2000).

    A right and a wrong sample are added to each; without that it would be too narrow for few samples.
    """
    n = samples + 2
    a, b = ((each * samples + 1) / n for each in (share, other))
    low, high = normal_interval(a - b, sqrt((a * (1 - a) + b * (1 - b)) / n))
    return max(-1.0, low), min(1.0, high)


def auroc_error(value: float, positive: float, negative: float) -> float | None:
    """Return the standard error of an AUROC of so many rows of each kind (Hanley and McNeil, 1982); None without rows.

    A value at 0 or 1 is taken half a pair away from there: few rows are easily ranked right by chance.
    """
    if positive <= 0 or negative <= 0:
        return None
    half = 0.5 / (positive * negative + 1)
    a = min(max(value, half), 1 - half)
    both_above, both_below = a / (2 - a), 2 * a**2 / (1 + a)
    spread = a * (1 - a) + max(positive - 1, 0) * (both_above - a**2) + max(negative - 1, 0) * (both_below - a**2)
    return sqrt(spread / (positive * negative))


def normal_interval(value: float, error: float) -> tuple[float, float]:
    """Return the 95 % interval of a value with this standard error."""
    return value - NORMAL * error, value + NORMAL * error
