"""Predictions of a loaded model as lines of CSV: the class by name, its probability, and that of every class."""

import csv
from collections.abc import Iterator
from typing import TextIO

import torch
from torch import Tensor

from motet.data.raw import Array
from motet.export.loading import LoadedModel

BATCH = 1000


def probabilities(model: LoadedModel, x: Array) -> Iterator[Tensor]:
    """Of every class, for one batch after the other."""
    for start in range(0, len(x), BATCH):
        yield torch.softmax(model(x[start : start + BATCH]), 1)


def write_predictions(file: TextIO, model: LoadedModel, x: Array) -> Tensor:
    """A line for each sample in its order; the numbers of the predicted classes."""
    names, lines, chosen = model.class_names, csv.writer(file, lineterminator="\n"), list[Tensor]()
    lines.writerow(["prediction", "probability", *(f"probability of {name}" for name in names)])
    for shares in probabilities(model, x):
        best = shares.argmax(1)
        for row, number in zip(shares.tolist(), best.tolist(), strict=True):
            lines.writerow([names[number], f"{row[number]:.6g}", *(f"{share:.6g}" for share in row)])
        chosen.append(best)
    return torch.cat(chosen)
