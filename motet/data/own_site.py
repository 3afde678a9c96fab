"""The data of one real site: its own table, read by the schema that all sites share, and split by its own randomness.

The splits are those that a simulation would draw for the same client of the same rows, so that both give one result.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from motet.config.data_section import DataSettings
from motet.config.own_data import is_table
from motet.data.federation import ClientData, Samples
from motet.data.partitions.splits import split_rows
from motet.data.prepare_table import TablePrepare
from motet.data.readers.raw import Integers, RawData
from motet.data.schema import Schema
from motet.data.sources import load
from motet.errors import MotetError, shown


@dataclass(frozen=True, eq=False)
class SiteTable:
    """The rows of a site before they are split, and how they become network input."""

    raw: RawData
    prepare: TablePrepare
    settings: DataSettings

    @property
    def schema(self) -> Schema:
        """Return the schema by which the table was read."""
        return self.prepare.schema

    @property
    def class_names(self) -> tuple[str, ...]:
        """Return the names of the classes; of a number, its own."""
        return (self.schema.label,) if self.schema.target is not None else self.schema.classes

    @property
    def target(self) -> str:
        """Return the name of the number that is predicted; empty for classes."""
        return self.schema.label if self.schema.target is not None else ""

    def split(self, seed: int, client_id: int, name: str) -> ClientData:
        """Return the rows as the data of this client: to train, to validate and to test on."""
        seed = seed if self.settings.partition_seed is None else self.settings.partition_seed
        everything = np.arange(len(self.raw.y))
        train, val, test = (
            self._samples(rows) for rows in split_rows(self.raw, everything, self.settings, seed, client_id)
        )
        return ClientData(client_id, train, val, test, given_name=name)

    def _samples(self, rows: Integers) -> Samples:
        y = self.raw.y if self.raw.target is None else self.raw.target
        return Samples(torch.from_numpy(self.raw.x[rows]).contiguous(), torch.from_numpy(y[rows]), self.prepare)

    def digest(self, salt: bytes) -> str:
        """Return a hash of all rows and the schema, with a salt, so that nobody can guess rows from it."""
        whole = hashlib.sha256(salt)
        y = self.raw.y if self.raw.target is None else self.raw.target
        for part in (self.raw.x, y):
            whole.update(np.ascontiguousarray(part).data)
        whole.update(repr(self.schema.plain()).encode())
        return whole.hexdigest()


def read_site_table(settings: DataSettings, path: Path, schema: Path) -> SiteTable:
    """Return the table of a site; raise a `MotetError` if it does not fit the schema.

    What the settings say of names, groups, times and notation counts; how samples are dealt does not.
    """
    if not is_table(path.name):
        raise MotetError(f"--data is {shown(str(path))}; accepted: a table, FILE.csv or FILE.parquet")
    there = {"name": str(path), "table_schema": str(schema), "client": None, "domain": None, "partition": "natural"}
    settings = settings.model_copy(update=there)
    raw = load(settings)
    if raw.fit is None:
        raise MotetError(f"--data is {shown(str(path))}, which has no columns; accepted: a table")
    prepare = raw.fit(raw.x, settings.normalize, np.arange(len(raw.y)))
    assert isinstance(prepare, TablePrepare)  # a given schema makes no other
    return SiteTable(raw, prepare, settings)
