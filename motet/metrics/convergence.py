"""When a run has converged by the stopping rule of DBE's library (its Table 8 counts rounds by it)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Literal

from pydantic import Field

from motet.messages.message import Message
from motet.metrics.names import MetricName
from motet.metrics.run_metric import Finding, RunFacts, RunMetric


class Convergence(RunMetric):
    """The first round after which the best scoring is more than `patience` scorings old, and the round of that best.

    It reads accuracy in the record's curve. As in the papers that use it, it looks at test data unless told otherwise.
    """

    name: ClassVar[str] = "convergence"
    summary: ClassVar[str] = "rounds and bytes until the best accuracy is more than so many scorings old"
    paper: ClassVar[str] = "DBE, Zhang et al. 2023, Table 8; the rule of its library"

    patience: int = Field(100, ge=1, description="scorings without a better one after which it has converged")
    model: Literal["personal", "generic"] = Field("personal", description="whose curve")
    data: Literal["headline", "validation", "split", "weighted"] = Field(
        "headline", description="of which curve: the data of the headline, or validation, split or weighted"
    )

    def found(self, run: RunFacts, replies: Mapping[int, Message]) -> Finding:
        """Return rounds and bytes, or a note if the rule never ends the run."""
        headline = run.scoring.headline
        data = headline.data if self.data == "headline" else self.data
        curve = MetricName(self.model, data, statistic=headline.statistic)
        scored = [(row["round"], value) for row in run.rows if (value := curve.of(row)) is not None]
        place = stops_at([value for _, value in scored], self.patience)
        if place is None:
            return Finding(
                notes=[
                    f"convergence: {curve} has {len(scored)} scorings, and its best is never more than {self.patience} "
                    "of them old; accepted: more rounds, or a smaller patience"
                ]
            )
        stop, best = scored[place][0], max(scored[: place + 1], key=lambda each: each[1])[0]
        sent = [(row.get("bytes_down") or 0) + (row.get("bytes_up") or 0) for row in run.rows if row["round"] <= stop]
        values = {"rounds_to_best": best, "rounds_to_stop": stop, "bytes_to_stop": sum(sent)}
        return Finding({str(replace(curve, metric=name)): float(value) for name, value in values.items()})


def stops_at(values: Sequence[float], patience: int) -> int | None:
    """Return the place at which the first best value is more than `patience` values old; None if it never is."""
    best = 0
    for place, value in enumerate(values):
        if value > values[best]:
            best = place
        elif place - best >= patience:
            return place
    return None
