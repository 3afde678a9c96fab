"""Predictions of a loaded model as lines of CSV: the class by name, its probability, and that of every class."""

import csv
from collections.abc import Iterator
from typing import TextIO

import torch
from torch import Tensor

from motet.data.raw import Array
from motet.export.loading import LoadedModel
from motet.export.reading import Given

BATCH = 1000


def probabilities(model: LoadedModel, x: Array) -> Iterator[Tensor]:
    """Of every class, for one batch after the other."""
    for start in range(0, len(x), BATCH):
        yield torch.softmax(model(x[start : start + BATCH]), 1)


def write_predictions(file: TextIO, model: LoadedModel, given: Given) -> Tensor:
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


def _named(given: Given, name: str) -> list[str]:
    return [] if given.names is None else [name]
