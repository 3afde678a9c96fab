"""Every client's model on every client's data (FED-ROD's Figure 11)."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from motet.data import ClientData, Samples
from motet.messages.message import Message, tensor
from motet.methods.base import Axis, LearnedFigure
from motet.metrics.metric import ACCURACY
from motet.metrics.names import PERSONAL, MetricName
from motet.metrics.one_pass import Answers, class_weighted, one_pass
from motet.metrics.run_metric import ClientScope, Finding, RunFacts, RunMetric

_IDS, _WEIGHTED, _CORRECTED = "cross.ids", "cross.weighted", "cross.corrected"


class CrossClient(RunMetric):
    """A[i, j]: accuracy of client i's model on client j's test data; for each head where a model has several.

    Where no client keeps test data it is the common test set, each class weighted by its share of client j's training
    data (Eq. 20). It needs all data in one place: a real site could compute only the diagonal.
    """

    name: ClassVar[str] = "cross_client"
    summary: ClassVar[str] = "every client's model on every client's test data, each head of it; mean on others' data"
    paper: ClassVar[str] = "FED-ROD, Chen and Chao 2022, Figure 11"
    asks_clients: ClassVar[bool] = True
    needs_own_tests: ClassVar[bool] = True
    takes_common_test: ClassVar[bool] = True

    clients: int = Field(50, ge=1, le=100, description="how many clients, the first ones")
    samples: int = Field(
        100, ge=1, description="how many test samples of each, the first ones; of a common test set, so many per client"
    )

    def whom(self, run: RunFacts) -> list[int]:
        """Return the first clients, as many as the matrix shows."""
        return run.facts.training_ids[: self.clients]

    def asked(self, run: RunFacts, client_id: int) -> Message:
        """Return the clients on whose data to score, and whether that is the common test set weighted for them."""
        corrected = run.scoring.class_weights == "count_corrected"
        return {_IDS: torch.tensor(self.whom(run)), _WEIGHTED: not run.has_own_tests, _CORRECTED: corrected}

    def at_client(self, here: ClientScope) -> Message:
        """Return one row of the matrix for each head; NaN for clients whose data are not here."""
        row = self._on_common_test if here.message[_WEIGHTED] else self._on_own_tests
        whose = [here.data.get(j) for j in tensor(here.message, _IDS).tolist()]
        return {head: torch.tensor(row(here, model, whose)) for head, model in here.heads().items()}

    def _on_own_tests(self, here: ClientScope, model: nn.Module, whose: Sequence[ClientData | None]) -> list[float]:
        return [_right(here, model, None if data is None else data.test.part(0, self.samples)) for data in whose]

    def _on_common_test(self, here: ClientScope, model: nn.Module, whose: Sequence[ClientData | None]) -> list[float]:
        """Return the accuracy on one set (of each domain), weighted by the classes of each client."""
        answers: dict[int | None, Answers] = {}
        corrected, row, classes = bool(here.message[_CORRECTED]), [], here.client.classes
        for data in whose:
            test = None if data is None else here.common_test(data)
            if data is None or test is None:
                row.append(float("nan"))
                continue
            if data.domain not in answers:
                some = here.spread_over_classes(test, self.samples * len(whose))
                answers[data.domain] = one_pass(model, some, [ACCURACY], classes)
            said = answers[data.domain]
            value = class_weighted(said.right[ACCURACY.name], said.counts, data.train.counts(classes), corrected)
            row.append(float("nan") if value is None else value)
        return row

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
                finding.figures[str(MetricName(PERSONAL, run.test_data, self.name, "mean"))] = float(others.mean())
        return finding

    def _picture(
        self, run: RunFacts, head: str, which: str, rows: Tensor, who: Sequence[int], asked: Sequence[int]
    ) -> LearnedFigure:
        names, data = run.names, "test data"
        if not run.has_own_tests:
            data = "classes (common test set, weighted)"
        return LearnedFigure.heatmap(
            f"cross-client-{head}",
            f"Every client's model on every client's {data}{which}",
            "High on the diagonal and low beside it are models that serve their own client and nobody else.",
            rows,
            x=Axis("client j, whose data", tuple(names[j] for j in asked)),
            y=Axis("client i, whose model", tuple(names[i] for i in who)),
        )


def _right(here: ClientScope, model: nn.Module, some: Samples | None) -> float:
    if some is None or not len(some):
        return float("nan")
    return sum(int((logits.argmax(1) == y).sum()) for logits, y in here.answers(model, some)) / len(some)


def _personal_first(head: str) -> tuple[bool, str]:
    """Return a sort key for heads, because replies of another process have their fields in another order."""
    return head != PERSONAL, head
