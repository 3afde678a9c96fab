"""Rounds that end by themselves: when the figure on validation data has not improved for a while.

What decides is the headline metric of the clients' models on their validation data. On few rows the highest of many
such figures is luck: of rounds within a standard error of the highest one, that with the lowest loss is kept. Test data
are not looked at. Everything here follows from the rows of the record, so that a resumed run decides as an
uninterrupted one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf
from statistics import harmonic_mean
from typing import Any

from motet.config.experiment import Experiment
from motet.data import ClientData
from motet.metrics.names import FROM_COUNTS, FROM_RANKS, MetricName
from motet.metrics.registry import headline_metric
from motet.metrics.statistics import share_error

_EQUAL = 1e-9
_LESS = 1e-3
"""The part by which a loss must fall to count as an improvement; else rounds would go on for digits nobody sees."""


def telling_samples(metric: str, clients: Iterable[ClientData], classes: int) -> int:
    """Return by how many of the validation samples of all clients the chance of a figure is to be told.

    That is all of them where samples count alike. An AUROC, an F1 or a balanced accuracy is as sure as its rarest class
    is frequent: of 150 patients of whom 8 died, an AUROC has about the standard error of 16 balanced rows (it lies
    between those of two and three times the rare rows; Hanley and McNeil, 1982). A mean over several classes, which
    count alike, has the error of so many balanced rows as classes by the harmonic mean of their rows.
    """
    data = [client.val for client in clients]
    if metric not in FROM_COUNTS | FROM_RANKS or classes < 2:
        return sum(map(len, data))
    rows = [
        n for of_class in zip(*(each.counts(classes).tolist() for each in data), strict=True) if (n := sum(of_class))
    ]
    if len(rows) < 2:
        return sum(rows)
    return 2 * int(min(rows)) if classes == 2 else round(len(rows) * harmonic_mean(rows))


@dataclass
class Stopping:
    """Decides when the rounds end, and remembers the best one."""

    figure: MetricName
    higher_is_better: bool
    patience: int
    most: int
    after: int = 0  # rounds up to here are not chosen, since the method has not settled
    samples: int = 0  # validation samples that tell the figure; 0: not known, and the highest figure decides
    best: int = 0  # the best round so far; 0: none was scored
    _highest: float = -inf
    _value: float = -inf  # of the best round
    _loss: float = inf

    @classmethod
    def of(
        cls, experiment: Experiment, after: int, samples: int, rows: Iterable[Mapping[str, Any]] = ()
    ) -> "Stopping | None":
        """Return the rule of an experiment whose rounds are `auto`, after these rows; None for a fixed number."""
        rounds = experiment.rounds
        if rounds.count != "auto":
            return None
        figure = replace(experiment.training_headline, data="validation")
        higher = headline_metric(experiment.scoring).higher_is_better
        made = cls(figure, higher, rounds.patience, rounds.most, min(after, rounds.most - 1), samples)
        for row in rows:
            made.see(row)
        return made

    def see(self, row: Mapping[str, Any]) -> None:
        """Take note of a round; one without a figure on validation data is passed over.

        The choice only moves forward, so that no models but those of the best round must be held.
        """
        value, loss = self.figure.of(row), replace(self.figure, metric="loss").of(row)
        round = row["round"]
        if value is None or round <= self.after:
            return
        score, less = value if self.higher_is_better else -value, inf if loss is None else loss
        self._highest = max(self._highest, score)
        enough = self._highest - share_error(self._highest, self.samples) - _EQUAL
        equal = abs(score - self._value) <= _EQUAL
        if loss is None:
            better = score > self._value + _EQUAL
        elif self._value < enough:
            better = score >= enough
        else:
            better = score >= enough and (less < (1 - _LESS) * self._loss or (equal and less < self._loss))
        if better:
            self.best, self._value, self._loss = round, score, less

    def is_over(self, round: int) -> bool:
        """Return whether no round follows after this one."""
        return round >= self.most or (round > self.after and round - max(self.best, self.after) >= self.patience)

    @property
    def kept(self) -> int | None:
        """Return the round whose models are kept; None where no round was scored on validation data."""
        return self.best or None
