"""Defaults for data of a user's own, where the user and the protocol leave a field open.

A table is small, and its user compares the models with a logistic regression: everybody takes part in every round,
weights are pulled towards zero, and rounds end when validation data show no gain. Local steps are SGD's: where clients
differ, FedAvg of Adam's steps, which have one length at every client, ends further from the best model for all. Other
files get rounds that end by themselves. The data sets by name keep the defaults with which papers are compared.
"""

from collections.abc import Mapping
from typing import Any

TABLES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".pq")
IN_MEMORY = "in-memory-"
IN_MEMORY_TABLE = f"{IN_MEMORY}table-"
FILES = (".npz", *TABLES)

OF_TABLES: Mapping[str, Any] = {
    "rounds": {"count": "auto", "most": 80, "patience": 8, "cohort": 1.0},
    "local": {"lr": 0.03, "weight_decay": 0.003, "epochs": 2, "batch": 0},
}
OF_OTHER_FILES: Mapping[str, Any] = {"rounds": {"count": "auto"}}


def is_table(name: object) -> bool:
    """Return whether data of this name are a table of the user's, by the name alone."""
    return isinstance(name, str) and (name.lower().endswith(TABLES) or name.startswith(IN_MEMORY_TABLE))


def is_own_data(name: str) -> bool:
    """Return whether data of this name are a file of the user's, or were given in memory, by the name alone."""
    return name.lower().endswith(FILES) or name.startswith(IN_MEMORY)


def defaults_for(chosen: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the defaults for these choices: empty for data sets by name, and beside a paper's protocol."""
    data = chosen.get("data")
    name = data.get("name") if isinstance(data, Mapping) else None
    if chosen.get("protocol", "motet") != "motet" or not isinstance(name, str):
        return {}
    if is_table(name):
        return OF_TABLES
    return OF_OTHER_FILES if is_own_data(name) else {}
