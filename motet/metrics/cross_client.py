"""Every client's model on every client's data (FED-ROD's Figure 11)."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from motet.data import Samples
from motet.messages.message import Message, tensor
from motet.methods.base import Axis, LearnedFigure
from motet.metrics.names import PERSONAL, MetricName
from motet.metrics.run_metric import ClientScope, Finding, RunFacts, RunMetric

_IDS = "cross.ids"


class CrossClient(RunMetric):
    """A[i, j]: accuracy of client i's model on client j's test data; for each head where a model has several.

    It needs all data in one place: a real site could compute only the diagonal.
    """

    name: ClassVar[str] = "cross_client"
    summary: ClassVar[str] = "every client's model on every client's test data, each head of it; mean on others' data"
    paper: ClassVar[str] = "FED-ROD, Chen and Chao 2022, Figure 11"
    asks_clients: ClassVar[bool] = True
    needs_own_tests: ClassVar[bool] = True

    clients: int = Field(50, ge=1, le=100, description="how many clients, the first ones")
    samples: int = Field(100, ge=1, description="how many test samples of each, the first ones")

    def whom(self, run: RunFacts) -> list[int]:
        """Return the first clients, as many as the matrix shows."""
        return run.facts.training_ids[: self.clients]

    def asked(self, run: RunFacts, client_id: int) -> Message:
        """Return the clients on whose data to score."""
        return {_IDS: torch.tensor(self.whom(run))}

    def at_client(self, here: ClientScope) -> Message:
        """Return one row of the matrix for each head; NaN for clients whose data are not here."""
        tests = [here.tests.get(j) for j in tensor(here.message, _IDS).tolist()]
        return {
            head: torch.tensor([self._right(here, model, t) for t in tests]) for head, model in here.heads().items()
        }

    def _right(self, here: ClientScope, model: torch.nn.Module, test: Samples | None) -> float:
        some = None if test is None else test.part(0, self.samples)
        if some is None or not len(some):
            return float("nan")
        return sum(int((logits.argmax(1) == y).sum()) for logits, y in here.answers(model, some)) / len(some)

    def found(self, run: RunFacts, replies: Mapping[int, Message]) -> Finding:
        """Return a matrix for each head, and the mean off its diagonal."""
        asked, finding = self.whom(run), Finding()
        theirs = {i: replies[i] for i in asked if replies.get(i)}
        heads = sorted({head for reply in theirs.values() for head in reply}, key=_personal_first)
        for head in heads:
            who = [i for i in theirs if head in theirs[i]]
            rows = torch.stack([tensor(theirs[i], head) for i in who])
            which = f", {head} head" if len(heads) > 1 else ""
            finding.figures_learned.append(self._picture(run, head, which, rows, who, asked))
            others = rows[torch.tensor([[i != j for j in asked] for i in who])]
            others = others[~others.isnan()]
            if head == PERSONAL and len(others):
                finding.figures[str(MetricName(PERSONAL, "split", self.name, "mean"))] = float(others.mean())
        return finding

    def _picture(
        self, run: RunFacts, head: str, which: str, rows: Tensor, who: Sequence[int], asked: Sequence[int]
    ) -> LearnedFigure:
        names = run.names
        return LearnedFigure.heatmap(
            f"cross-client-{head}",
            f"Every client's model on every client's test data{which}",
            "High on the diagonal and low beside it are models that serve their own client and nobody else.",
            rows,
            x=Axis("client j, whose data", tuple(names[j] for j in asked)),
            y=Axis("client i, whose model", tuple(names[i] for i in who)),
        )


def _personal_first(head: str) -> tuple[bool, str]:
    """Return a sort key for heads, because replies of another process have their fields in another order."""
    return head != PERSONAL, head
