"""Real tables as users have them: with clients, names, holes, columns of several kinds."""

import csv
import gzip
import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

LOADERS = {"breast_cancer": load_breast_cancer, "wine": load_wine, "digits": load_digits}
SITES = ("Bern", "Genève", "Zürich")
WORDS = {True: "true", False: "false"}


def rows_of(name: str, rows: int | None = None) -> list[dict[str, Any]]:
    """A table of scikit-learn's as dictionaries: a hole in one of twenty cells, a category and a boolean made of it."""
    data, rng = LOADERS[name](), np.random.default_rng(0)
    order = rng.permutation(len(data.target))[:rows]
    middle = np.median(data.data, axis=0)
    made = []
    for place in order:
        values = data.data[place]
        row: dict[str, Any] = {"number": 1000 + len(made), "site": SITES[int(rng.integers(3))]}
        row["group"] = ("low", "high")[int(values[-1] > middle[-1])]
        row["above"] = WORDS[bool(values[2] > middle[2])]
        row |= {f"{feature}": f"{value:g}" for feature, value in zip(data.feature_names, values, strict=True)}
        for column in list(row)[2:]:
            row[column] = "" if rng.random() < 0.05 else row[column]
        made.append({**row, "kind": f"class {data.target_names[data.target[place]]}"})
    return made


def write_csv(rows: list[dict[str, Any]], path: Path) -> Path:
    """With a header line; compressed if the name says so."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    data = text.getvalue().encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def write_parquet(rows: list[dict[str, Any]], path: Path) -> Path:
    """The same, with the types that its CSV has."""
    table = arrow_csv.read_csv(write_csv(rows, path.with_suffix(".tmp.csv")))
    parquet.write_table(table, path)
    return path
