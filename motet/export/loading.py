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
    """Return a model of a folder that `motet export` wrote: a plain torch module that takes samples as files have them.

    Parameters
    ----------
    folder
        The folder of an exported model, or of a whole export.
    client
        Of a whole export: whose model, by name or number; default the generic one.
    trust_code
        Nothing is unpickled. A net of the user's own is code: it runs if the user ran it before, or with `trust_code`.

    >>> import motet, tempfile
    >>> from sklearn.datasets import load_digits
    >>> models = tempfile.mkdtemp() + "/models"
    >>> _ = motet.export(motet.run(data="digits", clients=4, rounds=1), models, generic=True)
    >>> motet.load_model(models)(load_digits().images[:3]).shape
    torch.Size([3, 10])
    """
    known, model = read_model(model_folder(user_path(folder, "folder"), client), trust_code)
    return LoadedModel(known, RawModel(model, known.prepare))


# -------- Predictions of a loaded model, as rows and as lines of CSV


BATCH = 1000


def probabilities(model: LoadedModel, x: Array) -> Iterator[Tensor]:
    """Yield the probability of every class, for one batch of samples after the other."""
    for start in range(0, len(x), BATCH):
        yield torch.softmax(model(x[start : start + BATCH]), 1)


def predictions(model: LoadedModel, given: UserSamples) -> Iterator[dict[str, str | float]]:
    """Yield a row for each sample in its order: its file if it was one, the class and every class's probability."""
    names, files = model.class_names, iter(given.names or [])
    titles = [f"probability of {name}" for name in names]
    for shares in probabilities(model, given.x):
        for row, number in zip(shares.tolist(), shares.argmax(1).tolist(), strict=True):
            file = {} if given.names is None else {"file": next(files, "")}
            yield {
                **file,
                "prediction": names[number],
                "probability": row[number],
                **dict(zip(titles, row, strict=True)),
            }


def write_predictions(file: TextIO, model: LoadedModel, given: UserSamples) -> list[str]:
    """Write a line of CSV for each sample, and return the names of the predicted classes."""
    lines, chosen = csv.writer(file, lineterminator="\n"), list[str]()
    for row in predictions(model, given):
        if not chosen:
            lines.writerow(row)
        lines.writerow([value if isinstance(value, str) else f"{value:.6g}" for value in row.values()])
        chosen.append(str(row["prediction"]))
    return chosen
