"""Centralized training: the yardstick in which everybody's data lie in one place."""

from motet.methods.averaging import Averaging


class Centralized(Averaging):
    """The same local loop on the union of the training clients' data. Not federated learning."""

    pooled = True
