"""How fast clients that took no part in training adapt (FED-ROD's Figure 6, PGFed's 4, FedBasis's 10 to 12)."""

from collections.abc import Mapping
from itertools import count
from statistics import fmean
from typing import Annotated, ClassVar

import torch
from pydantic import AfterValidator, BeforeValidator, Field

from motet.errors import Diverged
from motet.messages.message import Message, tensor
from motet.methods.base import Axis, LearnedFigure
from motet.metrics.names import AFTER, PERSONAL, MetricName
from motet.metrics.on_test_data import accuracy_here, asked_data, data_of, validation_accuracy
from motet.metrics.run_metric import ClientScope, Finding, RunFacts, RunMetric

MOST_RATES = 8
_ABSENT = float("nan")
_CURVES, _USED, _VALIDATION = "adaptation.curves", "adaptation.rates", "adaptation.validation"


def rates_of(text: str) -> list[float]:
    """Return the learning rates of a text such as 0.005/0.01/0.05; raise ValueError if it is none."""
    accepted = f"accepted: 1 to {MOST_RATES} numbers above 0 with / between them, such as 0.005/0.01/0.05"
    try:
        rates = [float(word) for word in text.split("/")] if text else []
    except ValueError:
        raise ValueError(accepted) from None
    if len(rates) > MOST_RATES or not all(0 < rate < float("inf") for rate in rates):
        raise ValueError(accepted)
    return rates


def _as_text(value: object) -> object:
    """Return one learning rate as text, for it is read as a number."""
    return f"{value!r}" if isinstance(value, int | float) and not isinstance(value, bool) else value


def _checked(text: str) -> str:
    rates_of(text)
    return text


class Adaptation(RunMetric):
    """Mean accuracy of new clients before and after each of several numbers of epochs, for each learning rate.

    A point is the model that `adapt.epochs` and `adapt.lr` of that size would give, adapted from the start. After all
    epochs it is scored on the client's validation data too, so that a rate can be chosen without a look at test data.
    """

    name: ClassVar[str] = "adaptation"
    summary: ClassVar[str] = "accuracy of new clients over the epochs of their adaptation, for several learning rates"
    paper: ClassVar[str] = "FED-ROD 2022, Figure 6; PGFed 2023, Figure 4; FedBasis 2022, Figures 10 to 12"
    asks_clients: ClassVar[bool] = True

    epochs: int = Field(20, ge=1, le=200, description="the most epochs")
    every: int = Field(0, ge=0, description="measure every so many epochs; 0 = after 1, 2, 5, 10, 20, 50, ...")
    rates: Annotated[str, BeforeValidator(_as_text), AfterValidator(_checked)] = Field(
        "", description="learning rates, such as 0.005/0.01/0.05; left out: adapt.lr"
    )

    @property
    def trains(self) -> bool:
        """Whether clients train for it: new ones adapt."""
        return True

    def refuse(self, run: RunFacts) -> str | None:
        """Return a sentence if there are no new clients."""
        if not run.facts.new_ids:
            return "adaptation is of new clients, and there are none; accepted: data.new_clients above 0"
        return None

    def whom(self, run: RunFacts) -> list[int]:
        """Return the clients that took no part in training."""
        return run.facts.new_ids

    @property
    def points(self) -> list[int]:
        """The numbers of epochs after which is measured; the last is `epochs`."""
        if self.every:
            steps = range(self.every, self.epochs, self.every)
            return [*steps, self.epochs]
        sizes = (digit * 10**power for power in count() for digit in (1, 2, 5))
        found: list[int] = []
        for size in sizes:
            if size >= self.epochs:
                return [*found, self.epochs]
            found.append(size)
        raise AssertionError

    def asked(self, run: RunFacts, client_id: int) -> Message:
        """Return on which data to score."""
        return asked_data(run)

    def at_client(self, here: ClientScope) -> Message:
        """Return accuracies, one row per rate: before adaptation, then after each number of epochs.

        With them goes, for each rate, the accuracy on validation data after all epochs.
        """
        rates = rates_of(self.rates) or [here.client.adapt.lr]
        before, _ = self._accuracies(here, 0, rates[0])
        found = [[self._accuracies(here, epochs, rate) for epochs in self.points] for rate in rates]
        rows = [[before, *(on_test for on_test, _ in row)] for row in found]
        ends = [row[-1][1] for row in found]
        return {
            _CURVES: torch.tensor(rows, dtype=torch.float64),
            _USED: torch.tensor(rates, dtype=torch.float64),
            _VALIDATION: torch.tensor(ends, dtype=torch.float64),
        }

    @staticmethod
    def _accuracies(here: ClientScope, epochs: int, rate: float) -> tuple[float, float]:
        """Return the accuracy on test and on validation data after so many epochs.

        It is NaN without a model or without such data, and 0 for a model that diverged.
        """
        try:
            model = here.heads().get(PERSONAL) if epochs == 0 else here.adapted(epochs, rate)
        except Diverged:
            return 0.0, 0.0
        if model is None:
            return _ABSENT, _ABSENT
        on_test, on_validation = accuracy_here(here, model), validation_accuracy(here, model)
        return _ABSENT if on_test is None else on_test, _ABSENT if on_validation is None else on_validation

    def found(self, run: RunFacts, replies: Mapping[int, Message]) -> Finding:
        """Return a curve for each rate, and the accuracy at its end on test and on validation data."""
        tables = [tensor(reply, _CURVES) for reply in replies.values() if _CURVES in reply]
        if not tables:
            return Finding(notes=["adaptation: no new client answered"])
        used = tensor(next(iter(replies.values())), _USED).tolist()
        of_epochs = torch.stack(tables).permute(1, 2, 0).tolist()  # rate, number of epochs, client
        means = [[_mean(values) for values in row] for row in of_epochs]
        if all(value is None for row in means for value in row):
            return Finding(notes=["adaptation: new clients have no test data"])
        ends = torch.stack([tensor(reply, _VALIDATION) for reply in replies.values() if _VALIDATION in reply])
        finding = Finding()
        for rate, row, at_end in zip(used, means, ends.T.tolist(), strict=True):
            for data, value in ((data_of(run), row[-1]), ("validation", _mean(at_end))):
                if value is not None:
                    finding.figures[str(MetricName(AFTER, data, f"adaptation_{label(rate)}", "mean"))] = value
        finding.figures_learned.append(
            LearnedFigure.lines(
                "adaptation",
                "New clients over the epochs of their adaptation",
                "At 0 is what they are served without training; a rate that falls after it rose adapts too much.",
                {f"learning rate {rate:g}": row for rate, row in zip(used, means, strict=True)},
                x=Axis("epochs on the client's data", (0, *self.points)),
                y="accuracy",
            )
        )
        return finding


def label(rate: float) -> str:
    """Return a learning rate as a word for the name of a figure: 0.01 is `0_01`."""
    return f"{rate:g}".replace(".", "_")


def _mean(values: list[float]) -> float | None:
    there = [value for value in values if value == value]
    return fmean(there) if there else None
