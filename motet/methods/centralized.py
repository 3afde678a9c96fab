"""Centralized training: the yardstick in which everybody's data lie in one place."""

from torch import nn

from motet.client import Client
from motet.contract import Entry
from motet.message import Message
from motet.methods.averaging import Averaging


class Centralized(Averaging):
    """The same local loop on the union of the training clients' data. Not federated learning."""

    pooled = True

    def personal(self, client: Client, message: Message) -> nn.Module | None:
        """The one model: no client trains, so none has a last training of its own."""
        return super().personal(client.from_the_global_model(), message)


ENTRY = Entry(
    "centralized",
    "one model on everybody's pooled data: a yardstick",
    "baseline",
    whole=Centralized,
    stays="nothing",
    down="0",
    up="all data",
    one_model=True,
)
