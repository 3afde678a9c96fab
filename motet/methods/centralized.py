"""Centralized training: the reference in which all clients' data are in one place."""

from motet.methods.averaging import Averaging
from motet.methods.base import MethodEntry


class Centralized(Averaging):
    """The same local loop on the union of the training clients' data. Not federated learning."""

    pooled = True
    personal_from_global = True  # no client trains, so none has a last training of its own


ENTRY = MethodEntry(
    "centralized",
    "one model on everybody's pooled data: a yardstick",
    "baseline",
    whole=Centralized,
    stays="nothing",
    down="0",
    up="all data",
)
