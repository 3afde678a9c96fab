"""What happens inside a local training, epoch by epoch (FedBasis's Figure 2: do bases collapse within a round?)."""

from collections.abc import Mapping
from statistics import fmean
from typing import ClassVar

from pydantic import Field

from motet.messages.message import Message, number
from motet.methods.base import Axis, LearnedFigure
from motet.metrics.run_metric import ClientScope, Finding, RunFacts, RunMetric


class WithinRound(RunMetric):
    """The method's own numbers (`Method.after_epochs`) after 0, 1, … epochs of one more local training.

    They are means over clients. FedBasis has the mean cosine of two bases, their spread, and the entropy of α.
    """

    name: ClassVar[str] = "within_round"
    summary: ClassVar[str] = "a method's own numbers epoch by epoch of a local training, such as FedBasis's collapse"
    paper: ClassVar[str] = "FedBasis 2022, Figure 2"
    needs_classes: ClassVar[bool] = False
    asks_clients: ClassVar[bool] = True

    clients: int = Field(4, ge=1, description="how many clients train once more, the first ones")
    epochs: int = Field(5, ge=1, le=100, description="the most epochs")

    @property
    def trains(self) -> bool:
        """Whether clients train for it."""
        return True

    def whom(self, run: RunFacts) -> list[int]:
        """Return the first clients."""
        return run.facts.training_ids[: self.clients]

    def at_client(self, here: ClientScope) -> Message:
        """Return the numbers after each epoch."""
        every = {epochs: here.after_epochs(epochs) for epochs in range(self.epochs + 1)}
        return {f"{name}@{epochs}": value for epochs, found in every.items() for name, value in found.items()}

    def found(self, run: RunFacts, replies: Mapping[int, Message]) -> Finding:
        """Return a line for each number."""
        told = [reply for reply in replies.values() if reply]
        if not told:
            return Finding(
                notes=["within_round: the method has no such numbers; accepted: fedbasis, after its warm start"]
            )
        names = sorted({name.partition("@")[0] for name in told[0]})
        epochs = range(self.epochs + 1)
        lines = {name: [fmean(number(reply, f"{name}@{e}") for reply in told) for e in epochs] for name in names}
        picture = LearnedFigure.lines(
            "within-round",
            "Inside one more local training",
            "A cosine that climbs to 1 within the round, or a spread that falls, are bases that collapse at clients.",
            {name.replace("_", " "): values for name, values in lines.items()},
            x=Axis("epochs of local training", tuple(epochs)),
            y="",
        )
        return Finding(
            {}, {f"within_round_{name}": values[-1] - values[0] for name, values in lines.items()}, [picture]
        )
