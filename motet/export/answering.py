"""`motet predict`: which model answers which sample, and the answers as rows and as lines of CSV."""

import csv
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TextIO, cast

from motet.data import Prepare
from motet.data.prepare_table import TablePrepare
from motet.data.prepare_text import TextPrepare
from motet.data.readers.raw import Array
from motet.data.readers.values import name_of
from motet.errors import MotetError, shown, unknown
from motet.export.loading import LoadedModel, load_model, load_models
from motet.export.reading import UTF8, UserSamples, columns_in, read_columns, read_given
from motet.export.routing import Predicted, RoutedModels, predicted_by
from motet.export.rows import as_array, column_names, column_of
from motet.io.text import listed
from motet.runs.raw_model import RawModel

Cell = str | float
Models = str | os.PathLike[str] | RawModel | RoutedModels


class GivenRows:
    """Samples to predict, in a file or in memory, with the columns that stand beside what a model takes."""

    def __init__(self, data: Any, encoding: str = UTF8):
        """Take the path of a file or folder, or the samples themselves; `encoding` is that of a CSV file."""
        self.data, self.encoding = data, encoding

    @cached_property
    def columns(self) -> list[str]:
        """Return the names of the columns that the data have."""
        return columns_in(self.data, self.encoding) if isinstance(self.data, Path) else column_names(self.data)

    def column(self, name: str) -> list[str]:
        """Return a column as text, one for each sample; raise a `MotetError` if there is none of this name."""
        if isinstance(self.data, Path):
            return read_columns(self.data, [name], self.encoding)[name]
        values = column_of(self.data, name)
        if values is None:
            raise unknown("column of the data", name, self.columns)
        return ["" if value is None or value != value else name_of(value) for value in values]

    def samples(self, prepare: Prepare) -> UserSamples:
        """Return the samples as this preparation takes them."""
        if isinstance(self.data, Path):
            return read_given(self.data, prepare, encoding=self.encoding)
        if isinstance(prepare, TablePrepare | TextPrepare):  # takes data frames and dictionaries too
            return UserSamples(cast(Array, self.data), None)
        return UserSamples(as_array(self.data, "data"), None)


@dataclass(frozen=True)
class Answered:
    """Predictions for all samples, and what is known of the samples and of the models."""

    found: Predicted
    class_names: Sequence[str]
    beside: Mapping[str, Sequence[str]]
    """Columns before the predictions: names of files, the client, ids."""
    title: str
    """Of the one model that answered; empty where each row went to its client's."""
    y: Array | None
    """The labels, where the data have some."""

    def rows(self) -> Iterator[dict[str, Cell]]:
        """Yield a row for each sample, in its order."""
        return prediction_rows(self.found, self.class_names, self.beside)

    @property
    def chosen(self) -> list[str]:
        """Return the name of the class that was chosen for each sample; of numbers that of their column."""
        return [self.class_names[number] for number in self.found.chosen.tolist()]


def answer(
    models: Models,
    given: GivenRows,
    client: int | str | Sequence[object] | None = None,
    ids: Sequence[str] = (),
    trust_code: bool = False,
) -> Answered:
    """Return predictions for all samples.

    `client` is the column that names clients, or a name for each sample: then each sample goes to its client's model.
    Or it is one client, whose model answers all; without it the generic model does. `ids` are columns to keep.
    """
    kept = {name: given.column(name) for name in dict.fromkeys(ids)}
    by_column = isinstance(client, str) and client in given.columns
    if by_column or (client is not None and not isinstance(client, int | str)):
        return _by_clients(_routed(models, trust_code), given, client, kept)
    if isinstance(models, RoutedModels) and client is None and models.column is not None:
        return _by_clients(models, given, models.column, kept)
    return _by_one(_one(models, given, client, trust_code), given, kept)


def _by_clients(models: RoutedModels, given: GivenRows, client: Any, kept: Mapping[str, list[str]]) -> Answered:
    """Return predictions in which each sample goes to the model of its client."""
    if isinstance(client, str):
        if client in models.client_names:
            raise MotetError(
                f"client is {shown(client)}, which is both a column of the data and a client; accepted: data whose "
                f"column has another name"
            )
        names = given.column(client)
        kept = {client: names, **kept}
    else:
        names = list(client)
    samples = given.samples(models.prepare)
    found = models.route(models.prepare.stored(samples.x), names)
    return Answered(found, models.class_names, {**_files(samples), **kept}, "", samples.y)


def _by_one(model: RawModel, given: GivenRows, kept: Mapping[str, list[str]]) -> Answered:
    """Return the predictions of one model for all samples."""
    samples = given.samples(model.prepare)
    found = predicted_by(model, model.prepare.stored(samples.x))
    title = model.known.title if isinstance(model, LoadedModel) else "model"
    return Answered(found, model.class_names, {**_files(samples), **kept}, title, samples.y)


def _files(samples: UserSamples) -> dict[str, Sequence[str]]:
    return {} if samples.names is None else {"file": samples.names}


def _routed(models: Models, trust_code: bool) -> RoutedModels:
    if isinstance(models, RoutedModels):
        return models
    if isinstance(models, RawModel):
        raise MotetError("client is for several models; accepted: load_models(folder), or no client")
    return load_models(models, trust_code=trust_code)


def _one(models: Models, given: GivenRows, client: int | str | None, trust_code: bool) -> RawModel:
    if isinstance(models, RoutedModels):
        return models.model(None if client is None else str(client))
    if isinstance(models, RawModel):
        if client is not None:
            raise MotetError("client is for several models; accepted: load_model(folder, client), or no client")
        return models
    try:
        return load_model(models, client, trust_code=trust_code)
    except MotetError as error:
        if client is None or not given.columns or " of a client " not in str(error):
            raise
        raise MotetError(f"{error}, or a column of the data that names clients: {listed(given.columns)}") from None


# -------- The answers as rows


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
