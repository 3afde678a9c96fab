"""`motet.load_model` and `motet predict`: an exported model as a torch module, and its predictions as lines of CSV."""

import csv
import os
from collections.abc import Iterator, Mapping
from typing import TextIO

import torch
from torch import Tensor

from motet.data.readers.raw import Array
from motet.export.description import Description
from motet.export.folder import read_model
from motet.export.index import model_folder
from motet.export.reading import UserSamples
from motet.io.user_paths import user_path
from motet.runs.served_models import RawModel


class LoadedModel(RawModel):
    """An exported model: called with samples as the data file has them, it returns logits."""

    def __init__(self, known: Description, model: RawModel):
        super().__init__(model.model, model.prepare)
        self.known = known

    @property
    def class_names(self) -> list[str]:
        """Return the names of the classes that logits 0, 1, … stand for."""
        return list(self.known.class_names)

    @property
    def client(self) -> str | None:
        """Return the name of the client whose model it is; None for the generic model."""
        return self.known.client

    @property
    def figures(self) -> Mapping[str, float]:
        """Return the figures that the run measured for this model."""
        return self.known.figures


def load_model(
    folder: str | os.PathLike[str], client: int | str | None = None, *, trust_code: bool = False
) -> LoadedModel:
    """The model of a folder that `motet export` wrote: a client's by name or number, or else the generic one.

    Nothing is unpickled. A net of the user's own is code: it runs if the user ran it before, or with `trust_code`.
    """
    known, model = read_model(model_folder(user_path(folder, "folder"), client), trust_code)
    return LoadedModel(known, RawModel(model, known.prepare))


# -------- Predictions of a loaded model as lines of CSV


BATCH = 1000


def probabilities(model: LoadedModel, x: Array) -> Iterator[Tensor]:
    """Yield the probability of every class, for one batch of samples after the other."""
    for start in range(0, len(x), BATCH):
        yield torch.softmax(model(x[start : start + BATCH]), 1)


def write_predictions(file: TextIO, model: LoadedModel, given: UserSamples) -> Tensor:
    """A line for each sample in its order, after the name of its file if it was one; the predicted classes' numbers."""
    names, lines, chosen = model.class_names, csv.writer(file, lineterminator="\n"), list[Tensor]()
    lines.writerow([*_named(given, "file"), "prediction", "probability", *(f"probability of {name}" for name in names)])
    files = iter(given.names or [])
    for shares in probabilities(model, given.x):
        best = shares.argmax(1)
        for row, number in zip(shares.tolist(), best.tolist(), strict=True):
            told = (f"{share:.6g}" for share in (row[number], *row))
            lines.writerow([*_named(given, next(files, "")), names[number], *told])
        chosen.append(best)
    return torch.cat(chosen)


def _named(given: UserSamples, name: str) -> list[str]:
    return [] if given.names is None else [name]
