"""Predictions as rows and as lines of CSV: what a sample is, its class by name, and the probability of every class."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from typing import TextIO

from motet.errors import MotetError, shown
from motet.export.routing import Predicted

Cell = str | float


def prediction_rows(
    found: Predicted, classes: Sequence[str], beside: Mapping[str, Sequence[str]]
) -> Iterator[dict[str, Cell]]:
    """Yield a row for each sample in its order.

    First come the columns `beside`, such as ids, and where rows went to several models the `model`; then `prediction`,
    its `probability`, and `p(CLASS)` for each class; of two classes the `threshold` from which on the second is said.
    A number that is predicted is the `prediction`, and nothing follows.
    """
    titles = [] if found.are_numbers else [f"p({name})" for name in classes]
    own = [*(["model"] if found.models else []), "prediction", "probability", *titles, "threshold"]
    if taken := next((name for name in beside if name in own), None):
        raise MotetError(f"column {shown(taken)} has the name of a column of predictions; accepted: another name")
    for i, (row, number) in enumerate(zip(found.shares.tolist(), found.chosen.tolist(), strict=True)):
        yield {
            **{name: values[i] for name, values in beside.items()},
            **({"model": found.models[i]} if found.models else {}),
            **({"prediction": row[0]} if found.are_numbers else {"prediction": classes[number]}),
            **({} if found.are_numbers else {"probability": row[number], **dict(zip(titles, row, strict=True))}),
            **({"threshold": found.thresholds[i]} if found.thresholds else {}),
        }


def write_predictions(file: TextIO, rows: Iterator[dict[str, Cell]]) -> None:
    """Write a header and a line of CSV for each row, numbers with six digits."""
    lines = csv.writer(file, lineterminator="\n")
    for i, row in enumerate(rows):
        if not i:
            lines.writerow(row)
        lines.writerow([value if isinstance(value, str) else f"{value:.6g}" for value in row.values()])
