"""The number of rounds and bytes until an accuracy is first reached (PGFed's Table 2)."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field

from motet.messages.message import Message
from motet.metrics.names import MetricName
from motet.metrics.run_metric import Finding, RunFacts, RunMetric


class RoundsTo(RunMetric):
    """The first scored round whose mean over clients is at least the target, read from the record's curve.

    The kind of data is part of the figure's name, because a curve on test data reveals test results.
    """

    name: ClassVar[str] = "rounds_to"
    summary: ClassVar[str] = "rounds and bytes until the mean accuracy over clients first reaches a target"
    paper: ClassVar[str] = "PGFed, Luo et al. 2023, Table 2"

    target: float = Field(0.7, gt=0, le=1, description="the accuracy to reach")
    data: Literal["validation", "split", "weighted"] = Field(
        "validation", description="of which curve: clients' validation data, or test data (split, weighted)"
    )
    model: Literal["personal", "generic"] = Field("personal", description="of which model")

    @property
    def label(self) -> str:
        """The target in percent, as in the names of figures."""
        return f"{100 * self.target:.6g}".replace(".", "_")

    def refuse(self, run: RunFacts) -> str | None:
        """Return a sentence if the metric needs validation data that no client has."""
        if self.data == "validation" and not any(run.facts.by_id[i].val for i in run.facts.training_ids):
            return (
                "rounds_to reads the curve on validation data, and no client has any; accepted: a data.val_share above "
                "0, or data=split or data=weighted, which are test data"
            )
        return None

    def found(self, run: RunFacts, replies: Mapping[int, Message]) -> Finding:
        """Return rounds and bytes to the target, from the rows of the rounds."""
        curve = MetricName(self.model, self.data, statistic=run.scoring.mean_over_clients)
        scored = {row["round"]: value for row in run.rows if (value := curve.of(row)) is not None}
        reached = next((round for round, value in scored.items() if value >= self.target), None)
        if reached is None:
            best = f"its best is {max(scored.values()):.3f}" if scored else "no round has one"
            return Finding(notes=[f"rounds_to: {curve} never reaches {self.target:g} ({best})"])
        until = [row for row in run.rows if row["round"] <= reached]
        sent = [(row.get("bytes_down") or 0) + (row.get("bytes_up") or 0) for row in until]
        values = {"rounds_to": float(reached), "bytes_to": float(sum(sent))}
        return Finding(
            {str(MetricName(self.model, self.data, f"{k}_{self.label}", curve.statistic)): v for k, v in values.items()}
        )
