"""The confusion matrix: how many rows of each class were answered with each class, pooled and client by client."""

from collections.abc import Mapping
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from motet.messages.message import Message, tensor
from motet.methods.base import Axis, LearnedFigure
from motet.metrics.classification import confusion
from motet.metrics.names import GENERIC, PERSONAL
from motet.metrics.run_metric import ClientScope, Finding, RunFacts, RunMetric


class ConfusionMatrix(RunMetric):
    """C[i, j]: test rows of class i that are answered with class j, over all clients' own test rows."""

    name: ClassVar[str] = "confusion"
    summary: ClassVar[str] = (
        "how many test rows of each class are answered with each class, over all clients and by client"
    )
    paper: ClassVar[str] = "as in scikit-learn"
    asks_clients: ClassVar[bool] = True
    needs_own_tests: ClassVar[bool] = True
    needs_generic: ClassVar[bool] = True

    clients: int = Field(
        0, ge=0, le=20, description="of how many clients, the first ones, each has a matrix of its own"
    )

    def at_client(self, here: ClientScope) -> Message:
        """Return the counts of each model; the rows themselves do not leave the client."""
        models = {PERSONAL: here.heads().get(PERSONAL), GENERIC: here.generic()}
        there = {name: model for name, model in models.items() if model is not None and len(here.client.data.test)}
        return {name: _counts(model, here) for name, model in there.items()}

    def found(self, run: RunFacts, replies: Mapping[int, Message]) -> Finding:
        """Return the matrix of each model over all clients, and those of the first clients."""
        finding = Finding()
        for name, words in ((PERSONAL, "personal models"), (GENERIC, "generic model")):
            counts = {i: tensor(reply, name) for i, reply in replies.items() if name in reply}
            if counts:
                finding.figures_learned.append(
                    _matrix(run, name, f"of the {words}", torch.stack(list(counts.values())).sum(0))
                )
            for i in [i for i in self.whom(run) if i in counts][: self.clients]:
                finding.figures_learned.append(
                    _matrix(run, f"{name}-{i}", f"of the {words}, {run.names[i]}", counts[i])
                )
        return finding


def _counts(model: nn.Module, here: ClientScope) -> Tensor:
    every = list(here.answers(model, here.client.data.test))
    return confusion(torch.cat([logits for logits, _ in every]), torch.cat([y for _, y in every]))


def _matrix(run: RunFacts, name: str, of: str, counts: Tensor) -> LearnedFigure:
    names = run.facts.class_names or tuple(map(str, range(len(counts))))
    return LearnedFigure.heatmap(
        f"confusion-{name}",
        f"Confusion matrix {of}",
        "Test rows by their class (down) and the model's answer (across): right answers are on the diagonal.",
        counts,
        x=Axis("answer", tuple(n[:100] for n in names)),
        y=Axis("class", tuple(n[:100] for n in names)),
    )
