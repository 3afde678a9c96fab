"""Rounds that end by themselves: when the figure on validation data has not improved for a while.

What decides is the headline metric of the clients' models on their validation data; of two equal rounds, the one with
the lower loss is better. Test data are not looked at. Everything here follows from the rows of the record, so that a
resumed run decides as an uninterrupted one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from motet.config.experiment import Experiment
from motet.metrics.names import MetricName
from motet.metrics.registry import headline_metric

_EQUAL = 1e-9


@dataclass
class Stopping:
    """Decides when the rounds end, and remembers the best one."""

    figure: MetricName
    higher_is_better: bool
    patience: int
    most: int
    after: int = 0  # rounds up to here are not chosen, since the method has not settled
    best: int = 0  # the best round so far; 0: none was scored
    _value: float = 0.0
    _loss: float = 0.0

    @classmethod
    def of(cls, experiment: Experiment, after: int, rows: Iterable[Mapping[str, Any]] = ()) -> "Stopping | None":
        """Return the rule of an experiment whose rounds are `auto`, after these rows; None for a fixed number."""
        rounds = experiment.rounds
        if rounds.count != "auto":
            return None
        figure = replace(experiment.training_headline, data="validation")
        higher = headline_metric(experiment.scoring).higher_is_better
        made = cls(figure, higher, rounds.patience, rounds.most, min(after, rounds.most - 1))
        for row in rows:
            made.see(row)
        return made

    def see(self, row: Mapping[str, Any]) -> None:
        """Take note of a round; one without a figure on validation data is passed over."""
        value, loss = self.figure.of(row), replace(self.figure, metric="loss").of(row)
        round = row["round"]
        if value is None or round <= self.after:
            return
        score, less = value if self.higher_is_better else -value, float("inf") if loss is None else loss
        better = score > self._value + _EQUAL or (score >= self._value - _EQUAL and less < self._loss)
        if not self.best or better:
            self.best, self._value, self._loss = round, score, less

    def is_over(self, round: int) -> bool:
        """Return whether no round follows after this one."""
        return round >= self.most or (round > self.after and round - max(self.best, self.after) >= self.patience)

    @property
    def kept(self) -> int | None:
        """Return the round whose models are kept; None where no round was scored on validation data."""
        return self.best or None
