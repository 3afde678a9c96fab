"""`motet.Result`: a finished run as a Python object, with its figures, its histories and its models."""

import warnings
import weakref
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt
from torch import Tensor

from motet.api.choices import AnyPath
from motet.api.tables import Table, html_note, html_table, html_text
from motet.data.readers.in_memory import remove_scratch_folder
from motet.errors import MotetError
from motet.export.routing import RoutedModels
from motet.io.user_paths import user_path
from motet.metrics.metric import ACCURACY, Metric
from motet.metrics.registry import known_metric
from motet.metrics.wording import data_name, with_unit, written
from motet.runs.local_baseline import compared_with_local
from motet.runs.raw_model import RawModel
from motet.runs.record import Record
from motet.runs.rows import Row
from motet.runs.served_models import ServedModels

if TYPE_CHECKING:
    import pandas


class Figures(dict[str, Any]):
    """A nested dictionary whose entries are attributes too: `result.personal.split.personal_models`."""

    def __getattr__(self, name: str) -> Any:
        if name not in self:
            raise AttributeError(f"no figure {name!r} here; there are: {', '.join(self)}")
        value = self[name]
        return Figures(value) if isinstance(value, Mapping) else value


class Result:
    """A finished run: figures as shares between 0 and 1, None where the method has no such figure.

    `motet.run`, `motet.resume` and `motet.load` return it. Its models take samples as the data file has them.

    >>> import motet
    >>> result = motet.run(method="fedavg+ft", data="digits", clients=4, rounds=2)
    >>> result.generic.accuracy, result.personal.weighted.personal_models  # doctest: +SKIP
    (0.53, 0.71)
    >>> len(result.rounds)
    2
    """

    def __init__(
        self, folder: AnyPath, temporary: bool = False, local: AnyPath | None = None, trust_code: bool = False
    ):
        """Read the run in that folder, beside a run of `local` if one is named; a temporary folder goes with it.

        Figures and histories run no code that the folder names. Models do, if the user ran it before or trusts it.
        """
        self.folder, self._trust_code = user_path(folder, "folder"), trust_code
        record, beside = Record(self.folder), None if local is None else Record(user_path(local, "folder"))
        summary = record.summary if beside is None else compared_with_local(record, beside)
        self.summary = Figures(summary.model_dump())
        if temporary:
            weakref.finalize(self, remove_scratch_folder, self.folder)

    # ------------------------------------------------------------ figures

    @property
    def method(self) -> str:
        """Return the method's name as recorded."""
        return str(self.summary.method)

    @property
    def figures(self) -> dict[str, float]:
        """Return every figure by its full name, such as `personal.weighted.accuracy.mean`."""
        return dict(self.summary["figures"])

    @property
    def warnings(self) -> list[str]:
        """Return a sentence for each thing that failed in the run, such as a model that predicts only one class."""
        return list(self.summary.get("warnings", []))

    @property
    def generic(self) -> Figures:
        """Return the `accuracy` of the generic model on the common test set."""
        figures: Figures = self.summary.generic
        return figures

    @property
    def personal(self) -> Figures:
        """Return `weighted`, `split` and `common` accuracies of `generic_model` and `personal_models`, and `std`,
        `worst_tenth` and `hurt`."""
        figures: Figures = self.summary.personal
        return figures

    @property
    def new_clients(self) -> Figures:
        """Return the accuracy of new clients `before` and `after` adaptation."""
        figures: Figures = self.summary.new_clients
        return figures

    @property
    def bytes_per_round(self) -> Figures:
        """Return the bytes sent `down` and `up` in a round, over all its clients."""
        figures: Figures = self.summary.bytes_per_round
        return figures

    @property
    def seconds(self) -> float:
        """Return how many seconds the run computed."""
        return float(self.summary.seconds)

    # ------------------------------------------------------------ histories

    @cached_property
    def rounds(self) -> Table:
        """Return one row per round; only rounds that were scored have scores."""
        return Table(flat(row) for row in Record(self.folder).rounds)

    @cached_property
    def clients(self) -> Table:
        """Return one row per client and round in which clients were scored."""
        return Table(flat(row) for row in Record(self.folder).clients)

    def to_pandas(self) -> "pandas.DataFrame":
        """Return `rounds` as a pandas.DataFrame; `result.clients.to_pandas()` has the clients."""
        return self.rounds.to_pandas()

    @cached_property
    def figures_learned(self) -> list[Row]:
        """Return figures of what the method learned, as numbers to be drawn."""
        return [figure.plain() for figure in Record(self.folder).figures_learned]

    def measure(self, *names: str) -> Figures:
        """Return more figures of the last round's models, by names of `motet list metrics`; the data are read again.

        The record stays as it is. A figure that could not be measured is a warning.
        """
        from motet.runs.measure_again import measure_again

        found = measure_again(Record(self.folder), names, self._trust_code)
        for sentence in found.notes:
            warnings.warn(sentence, stacklevel=2)
        return Figures(found.figures | found.training)

    # ------------------------------------------------------------ models of the last round

    @cached_property
    def _served(self) -> ServedModels:
        return ServedModels(Record(self.folder), self._trust_code)

    def generic_model(self) -> RawModel:
        """Return the model for everybody; it takes samples as the data file has them and gives logits.

        `predict`, `predict_proba` and `classes_` of it are as in scikit-learn.
        """
        return self._served.generic_model()

    def personal_model(self, client: int | str) -> RawModel:
        """Return one client's own model, by its number or name, with the same functions as the generic one."""
        return self._served.personal_model(client)

    def models(self, client: str | None = None) -> RoutedModels:
        """Return all models as one, whose `predict` sends each row to the model of its client; see `motet.load_models`.

        `client` is the column of rows that names clients, by default the one of the run's data.
        """

        def load(name: str | None) -> RawModel | None:
            if name is not None:
                return self.personal_model(name)
            try:
                return self.generic_model()
            except MotetError:  # the method has none
                return None

        column = Record(self.folder).experiment.data.client if client is None else client
        return RoutedModels(str(self.folder), self.client_names, load, column)

    @property
    def client_names(self) -> list[str]:
        """Return the names of clients 0, 1, … in the data, or else their numbers."""
        return [client.name for client in self._served.facts.clients]

    @property
    def class_names(self) -> list[str]:
        """Return the names of the classes 0, 1, … in the data, or else their numbers; logits are in this order."""
        return list(self._served.facts.class_names)

    def adapt(
        self,
        x: npt.ArrayLike | Tensor | None = None,
        y: npt.ArrayLike | Tensor | None = None,
        *,
        counts: Sequence[int] | None = None,
    ) -> RawModel:
        """Return the model of a new client, from its samples x and labels y, or from its class counts alone."""
        if counts is not None and x is None and y is None:
            return self._served.adapted_to_counts(counts)
        if x is None or y is None or counts is not None:
            raise MotetError("adapt takes a new client's samples x and labels y, or its class counts alone")
        return self._served.adapted(x, y)

    def export(
        self,
        out: AnyPath,
        clients: Sequence[int | str] = (),
        *,
        generic: bool = False,
        formats: Sequence[str] = ("torch",),
        threshold: str = "",
    ) -> list[Path]:
        """Write models that need neither this run nor its data, and return their folders; see `motet.export`."""
        from motet.export.run import export_run

        written = export_run(self._served, user_path(out, "out"), clients, generic, formats, threshold=threshold)
        return [each.folder for each in written]

    def _repr_html_(self) -> str:
        headline, metric = self.figures.get(self.summary.reported.figure), self._metric
        new = self.summary.new_clients
        rows = [
            ("one model for all, over all test samples", written(self._of_all_samples, metric)),
            ("clients' own models", written(headline, metric)),
        ]
        if new.get("after") is not None:
            rows.append(("new clients, after adaptation", written(new["after"], metric)))
        table = html_table((metric.said, "%" if metric.percent else ""), rows)
        title = html_text(f"{self.method} on {data_name(str(self.summary.data))}")
        notes = "; ".join([*self.warnings, f"recorded in {self.folder}"])
        return f"<p><strong>{title}</strong></p>{table}{html_note(notes)}"

    def __repr__(self) -> str:
        metric = self._metric
        personal = with_unit(self.figures.get(self.summary.reported.figure), metric)
        name = "" if metric is ACCURACY else f"{metric.said} "
        return (
            f"<motet.Result of {self.method} on {self.summary.data}: {name}generic "
            f"{with_unit(self._of_all_samples, metric)}, personal {personal}, in {self.folder}>"
        )

    @property
    def _of_all_samples(self) -> float | None:
        """The headline's metric of the generic model over all samples of the common or of clients' test data."""
        names = (f"generic.{data}.{self._metric.name}.pooled" for data in ("common", "split"))
        return next((self.figures[name] for name in names if name in self.figures), None)

    @property
    def _metric(self) -> Metric:
        return known_metric(self.summary.reported.metric, self.summary.reported.higher_is_better)


def flat(row: Row) -> Row:
    """Return a row without dictionaries inside: `family_chosen` becomes columns, `set_aside` the ids it names."""
    columns: Row = {name: row[name] for name in ("round", "client") if name in row}  # the keys of a row come first
    for name, value in row.items():
        if name == "set_aside" and isinstance(value, Mapping):
            columns[name] = [int(client_id) for client_id in value]
        elif isinstance(value, Mapping):
            columns |= {f"{name}.{inner}": found for inner, found in flat(dict(value)).items()}
        else:
            columns[name] = value
    return columns
