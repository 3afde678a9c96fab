"""What may be chance: means over clients and seeds, and differences of methods paired over both.

A method's values are a table, a row per client and a column per seed. Both vary by chance: other clients, another
training. The bootstrap draws clients and, apart from them, seeds with replacement, the same for both methods of a
difference. It is known to be too narrow for few of either, so that its deviations are widened by √(n/(n−1)) each, and
the interval takes Student's distribution, with the degrees of freedom that the two parts of the variance have together
(Welch and Satterthwaite).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt

import numpy as np
import numpy.typing as npt

LEVEL = 0.95
DRAWS = 4000

Table = npt.NDArray[np.float64]  # clients × seeds


@dataclass(frozen=True)
class Estimate:
    """A mean over clients and seeds, its interval, and the chance of a mean as far from 0 where the true one is 0."""

    mean: float
    low: float | None
    high: float | None
    p: float | None

    @property
    def interval(self) -> list[float] | None:
        """For JSON."""
        return None if self.low is None or self.high is None else [self.low, self.high]


def estimate(table: Table, seed: int = 0) -> Estimate:
    """Of one method's accuracies, or of the differences of two; one client with one seed has no interval."""
    from scipy.stats import t as student  # type: ignore[import-untyped]

    mean = float(table.mean())
    parts = [_deviations(values, seed + i) for i, values in enumerate((table.mean(1), table.mean(0)))]
    known = [(each, size - 1) for each, size in zip(parts, table.shape, strict=True) if each is not None]
    if not known:
        return Estimate(mean, None, None, None)
    variances = [float(each.var()) for each, _ in known]
    error = sqrt(sum(variances))
    if not error:  # the same value for every client and seed
        return Estimate(mean, mean, mean, 1.0 if not mean else 0.0)
    freedom = sum(variances) ** 2 / sum(v**2 / n for v, (_, n) in zip(variances, known, strict=True))
    reach = float(student.ppf((1 + LEVEL) / 2, freedom)) * error
    return Estimate(mean, mean - reach, mean + reach, float(2 * student.sf(abs(mean) / error, freedom)))


def accuracy(table: Table) -> Estimate:
    """Of accuracies, whose interval stays within 0 and 1."""
    found = estimate(table)
    if found.low is None or found.high is None:
        return found
    return Estimate(found.mean, max(0.0, found.low), min(1.0, found.high), found.p)


Pair = tuple[str, str]


@dataclass(frozen=True)
class Differences:
    """Every pair of methods: the difference, and its p-value after Holm's correction for all that are looked at.

    Against a control that was named before, those are the other methods. Who else leads is seen in the results, so
    that any other difference is one of all pairs.
    """

    pairs: Mapping[Pair, Estimate]
    adjusted: Mapping[Pair, float]

    def of(self, a: str, b: str) -> Estimate:
        """How much more a has than b."""
        if (a, b) in self.pairs:
            return self.pairs[a, b]
        back = self.pairs[b, a]
        low, high = (None if bound is None else -bound for bound in (back.high, back.low))
        return Estimate(-back.mean, low, high, back.p)

    def certain(self, a: str, b: str) -> bool:
        """Whether the two differ by more than chance, after the correction."""
        return self.adjusted.get((a, b), self.adjusted.get((b, a), 1.0)) < 1 - LEVEL

    def may_be_equal(self, a: str, b: str) -> bool:
        """Whether the interval of this one difference has 0 in it."""
        p = self.of(a, b).p
        return p is None or p >= 1 - LEVEL


def differences(tables: Mapping[str, Table], control: str = "") -> Differences:
    """Of all pairs of methods."""
    pairs = {(a, b): estimate(tables[a] - tables[b]) for a, b in combinations(tables, 2)}
    known = {pair: found.p for pair, found in pairs.items() if found.p is not None}
    beside = {pair: p for pair, p in known.items() if control in pair}
    return Differences(pairs, _corrected(known) | _corrected(beside))


def _corrected(ps: Mapping[Pair, float]) -> dict[Pair, float]:
    return dict(zip(ps, holm(list(ps.values())), strict=True))


def holm(ps: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, in the order given."""
    adjusted, largest = [0.0] * len(ps), 0.0
    for rank, i in enumerate(sorted(range(len(ps)), key=lambda i: ps[i])):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[i]))
        adjusted[i] = largest
    return adjusted


def _deviations(values: Table, seed: int) -> Table | None:
    """Of bootstrap means from the mean; None for one value, which says nothing of chance."""
    n = len(values)
    if n < 2:
        return None
    drawn = np.random.default_rng(seed).integers(0, n, (DRAWS, n))
    found: Table = (values[drawn].mean(1) - values.mean()) * sqrt(n / (n - 1))
    return found
