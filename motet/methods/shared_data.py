"""FedAvg+Meta (Zhao et al. 2018): a small balanced set of samples that every client adds to its own."""

from typing import ClassVar

from motet.data import Samples
from motet.messages.message import Message, number
from motet.methods.base import MethodEntry, Part, Training
from motet.methods.base.part import Acts


class SharedData(Part):
    """D_m ∪ D_meta in the place of D_m; otherwise FedAvg, or what the other parts make of it."""

    acts: ClassVar[Acts] = "samples"
    needs_sharing: ClassVar[bool] = False
    needs_shared_data: ClassVar[bool] = True
    needs_classes: ClassVar[bool] = True

    def before(self, t: Training, message: Message) -> None:
        """Count the shared samples too, for balanced losses: some classes may exist only there."""
        t["counts"] = t.counts + self.shared(t).counts(t.client.classes).to(t.w)

    def samples(self, t: Training, samples: Samples) -> Samples:
        """D_m ∪ D_meta"""
        return Samples.union([samples, self.shared(t)])

    def after(self, t: Training, reply: Message) -> None:
        """Send n_m with the shared samples, as the client trained on them."""
        if "n" in reply:
            reply["n"] = int(number(reply, "n")) + len(self.shared(t))

    def shared(self, t: Training) -> Samples:
        """D_meta"""
        assert t.client.shared_data is not None
        return t.client.shared_data


ENTRY = MethodEntry(
    "shared-data", "a small balanced set joins every client's data", "Zhao et al. 2018", part=SharedData
)
