"""Accuracy over rounds of every model that was scored on one kind of data (FED-ROD's Figures 1, 3, 5, 8 and 10)."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field

from motet.messages.message import Message
from motet.methods.base import Axis, LearnedFigure
from motet.methods.base.learned_figure import MOST
from motet.metrics.names import DATA, GENERIC, OF_A_MEMBER, OF_A_RULE, PERSONAL, MetricName, variant
from motet.metrics.run_metric import Finding, RunFacts, RunMetric

WORDS = {
    GENERIC: "generic model",
    PERSONAL: "personal models",
    variant(PERSONAL, "generic_head"): "generic heads of clients' models",
}


class Curves(RunMetric):
    """The mean accuracy over clients in each scored round, read from the record; the generic model's on a common set.

    A line needs at least two rounds with a value: on the common test set that takes `scoring.common_test = "whole"`.
    """

    name: ClassVar[str] = "curves"
    summary: ClassVar[str] = "accuracy of every scored model over rounds on one kind of data, as a picture"
    paper: ClassVar[str] = "FED-ROD, Chen and Chao 2022, Figures 1, 3, 5, 8 and 10"

    data: Literal["common", "weighted", "split", "validation", "training"] = Field(
        "common", description="kind of data: common, weighted, split, validation or training"
    )

    def found(self, run: RunFacts, replies: Mapping[int, Message]) -> Finding:
        """Return the picture, or a note where there is nothing to draw."""
        names = {name: f for row in run.rows for name in row if (f := MetricName.read(name)) and self._is_drawn(f)}
        rows = [row for row in run.rows if any(f.of(row) is not None for f in names.values())]
        lines = {f: [f.of(row) for row in rows] for f in names.values()}
        lines = {f: values for f, values in lines.items() if sum(v is not None for v in values) > 1}
        notes = []
        if not any(f.model != GENERIC for f in lines):
            needs = {"common": "scoring.common_test = whole", "training": "scoring.training_data = true"}
            wanted = needs.get(self.data, "such data and at least two scored rounds")
            notes = [f"curves: personal models have no two rounds on {self.data} data; accepted: {wanted}"]
        if not lines:
            return Finding(notes=notes)
        first = sorted(lines, key=lambda f: (f.model != GENERIC, f.model != PERSONAL, f.model))[: MOST["series"]]
        curve = LearnedFigure.lines(
            f"curves-{self.data}",
            f"Accuracy over rounds on {self.data} data",
            f"Means over clients on {DATA[self.data].partition(',')[0]}.",
            {WORDS.get(f.model, f.model): lines[f] for f in first},
            x=Axis("round", tuple(row["round"] for row in rows)),
            y="accuracy",
        )
        return Finding(figures_learned=[curve], notes=notes)

    def _is_drawn(self, figure: MetricName) -> bool:
        """Return whether this is the mean accuracy of a model on the data; a common set has one of the generic model.

        Members of a family and rules that choose among them have a picture of their own.
        """
        pooled = figure.model == GENERIC and self.data == "common"
        return (
            (figure.data, figure.metric, figure.among) == (self.data, "accuracy", "")
            and figure.statistic == ("pooled" if pooled else "mean")
            and not figure.model.startswith((OF_A_MEMBER, OF_A_RULE))
        )
