"""From a run to a model elsewhere: exported folders, what reads them, predictions, models of new clients."""

from motet.export.loading import LoadedModel, load_model

__all__ = ["LoadedModel", "load_model"]
