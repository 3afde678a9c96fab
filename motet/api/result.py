"""What a run leaves in the hands of a Python user: its figures, its histories and its models."""

import os
import warnings
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy.typing as npt
from rich.console import Console
from torch import Tensor, nn

from motet.config.nesting import nested
from motet.config.short_names import among, choose
from motet.data.readers.in_memory import handed_over, new_scratch_folder, remove_scratch_folder
from motet.errors import MotetError, shown
from motet.io.user_paths import user_path
from motet.report.progress import onlooker
from motet.report.tables.wording import percent
from motet.runs import run as runs
from motet.runs.local_baseline import beside_local
from motet.runs.record import Record
from motet.runs.rows import Row
from motet.runs.served_models import ServedModels
from motet.track import tracked

AnyPath = str | Path


class Figures(dict[str, Any]):
    """A nested dictionary whose entries are attributes too: `result.personal.split.personal_models`."""

    def __getattr__(self, name: str) -> Any:
        if name not in self:
            raise AttributeError(f"no figure {name!r} here; there are: {', '.join(self)}")
        value = self[name]
        return Figures(value) if isinstance(value, Mapping) else value


class Result:
    """A finished run: figures as fractions, None where the method has no such figure."""

    def __init__(
        self, folder: AnyPath, temporary: bool = False, local: AnyPath | None = None, trust_code: bool = False
    ):
        """Of the run in that folder, beside a run of `local` if one is named; a temporary folder goes with it.

        Figures and histories run no code that the folder names. Models do, if the user ran it before or trusts it.
        """
        self.folder, self._trust_code = user_path(folder, "folder"), trust_code
        record, beside = Record(self.folder), None if local is None else Record(user_path(local, "folder"))
        summary = record.summary if beside is None else beside_local(record, beside)
        self.summary = Figures(summary.model_dump())
        if temporary:
            weakref.finalize(self, remove_scratch_folder, self.folder)

    # ------------------------------------------------------------ figures

    @property
    def method(self) -> str:
        """The method's name as recorded."""
        return str(self.summary.method)

    @property
    def figures(self) -> dict[str, float]:
        """Every figure there is by its full name, such as `personal.weighted.accuracy.mean`."""
        return dict(self.summary["figures"])

    @property
    def warnings(self) -> list[str]:
        """What failed in the run, a sentence each, such as that a model predicts one class only; empty if nothing."""
        return list(self.summary.get("warnings", []))

    @property
    def generic(self) -> Figures:
        """`accuracy` of the generic model on the common test set."""
        figures: Figures = self.summary.generic
        return figures

    @property
    def personal(self) -> Figures:
        """`weighted`, `split` and `common`, of `generic_model` and `personal_models`; `std`, `worst_tenth`, `hurt`."""
        figures: Figures = self.summary.personal
        return figures

    @property
    def new_clients(self) -> Figures:
        """`before` and `after` adaptation."""
        figures: Figures = self.summary.new_clients
        return figures

    @property
    def bytes_per_round(self) -> Figures:
        """`down` and `up`, over all clients of a round."""
        figures: Figures = self.summary.bytes_per_round
        return figures

    @property
    def seconds(self) -> float:
        """How long the run computed."""
        return float(self.summary.seconds)

    # ------------------------------------------------------------ histories, for pandas.DataFrame

    @cached_property
    def rounds(self) -> list[Row]:
        """One row per round; scores are in the rounds that were scored."""
        return [flat(row) for row in Record(self.folder).rounds]

    @cached_property
    def clients(self) -> list[Row]:
        """One row per client and scoring."""
        return [flat(row) for row in Record(self.folder).clients]

    @cached_property
    def figures_learned(self) -> list[Row]:
        """What the method learned, as numbers to be drawn."""
        return [figure.plain() for figure in Record(self.folder).figures_learned]

    def measure(self, *names: str) -> Figures:
        """More figures of the last round's models, by names of `motet list metrics`; the data are read again.

        The record stays as it is. What could not be found is a warning.
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

    def generic_model(self) -> nn.Module:
        """The model for everybody; takes samples as the data file has them, gives logits."""
        return self._served.generic_model()

    def personal_model(self, client: int | str) -> nn.Module:
        """One client's own model, by its number or name; takes samples as the data file has them, gives logits."""
        return self._served.personal_model(client)

    @property
    def client_names(self) -> list[str]:
        """Of clients 0, 1, …, as the data call them, or else their numbers."""
        return [client.name for client in self._served.facts.clients]

    @property
    def class_names(self) -> list[str]:
        """Of the logits 0, 1, …, as the data call them, or else their numbers."""
        return list(self._served.facts.class_names)

    def adapt(
        self,
        x: npt.ArrayLike | Tensor | None = None,
        y: npt.ArrayLike | Tensor | None = None,
        *,
        counts: Sequence[int] | None = None,
    ) -> nn.Module:
        """The model of a new client, from its samples x and labels y, or from its class counts alone."""
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
    ) -> list[Path]:
        """Write models that need neither this run nor its data; `motet.load_model` reads them. The folders written.

        Without clients or `generic`, all of them that can be made here.
        """
        from motet.export.run import export_run

        written = export_run(self._served, user_path(out, "out"), clients, generic, formats)
        return [each.folder for each in written]

    def __repr__(self) -> str:
        personal = percent(self.figures.get(self.summary.reported.figure))
        return (
            f"<motet.Result of {self.method} on {self.summary.data}: generic {percent(self.generic.accuracy)} %, "
            f"personal {personal} %, in {self.folder}>"
        )


def run(
    *,
    experiment: AnyPath | None = None,
    method: str | None = None,
    data: Any = None,
    label: str | None = None,
    client: Any = None,
    domain: Any = None,
    leave_out: Sequence[str] | str | None = None,
    schema: AnyPath | None = None,
    encoding: str | None = None,
    decimal: str | None = None,
    drop_missing: bool | None = None,
    data_dir: AnyPath | None = None,
    partition: str | None = None,
    partition_seed: int | None = None,
    clients: int | None = None,
    new_clients: float | None = None,
    subset: float | None = None,
    rounds: int | None = None,
    cohort: float | None = None,
    epochs: int | None = None,
    batch: int | None = None,
    lr: float | None = None,
    net: str | None = None,
    head: str | None = None,
    precision: str | None = None,
    seed: int | None = None,
    protocol: str | None = None,
    out: AnyPath | None = None,
    set: Mapping[str, Any] | None = None,  # as on the command line; Python's own is not needed here
    progress: bool = False,
    track: Sequence[str] = (),
    **dotted: Any,
) -> Result:
    """Run an experiment to its end, as `motet run` does.

    `data` is a name or a path; or it is here: (x, y) or a torch Dataset of such with one value of `client` and
    `domain` per sample, a data frame or an Arrow table with columns named by `label`, `client` and `domain`.
    `experiment` is a file; every other field goes by its dotted name, in `set={"local.momentum": 0.5}` or as
    `**{"local.momentum": 0.5}`. Without `out` the record lives as long as the result. `track` names logs that other
    programs show, as `--track` does.
    """
    settings = [nested(name, value) for name, value in _dotted(set).items()]
    file = None if experiment is None else user_path(experiment, "experiment file")
    with (
        _named(among(locals())) as short,
        onlooker(Console(stderr=True, quiet=not progress)) as watcher,
        tracked(watcher, track, warnings.warn) as logged,
    ):
        chosen = choose(short, file, *settings, beside=[nested(name, value) for name, value in dotted.items()])
        folder = user_path(out, "out") if out is not None else new_scratch_folder()
        try:
            logged.finished(runs.run(chosen, folder, logged))
        except BaseException:
            if out is None:
                remove_scratch_folder(folder)
            raise
    result = Result(folder, temporary=out is None)
    for sentence in result.warnings:
        warnings.warn(sentence, stacklevel=2)
    return result


@contextmanager
def _named(short: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The choices with a name for data that are in memory, which are in a file meanwhile."""
    data = short["data"]
    if data is None or isinstance(data, str | os.PathLike) or _is_section(data):
        yield short
        return
    with handed_over(data, short["client"], short["domain"]) as handed:
        yield {**short, "data": handed.name, "client": handed.client, "domain": handed.domain}


def _is_section(data: object) -> bool:
    """Whether it is [data] of an experiment, by its fields."""
    return isinstance(data, Mapping) and "x" not in data


def _dotted(values: object) -> Mapping[str, Any]:
    """What `set` holds, after a look at it: it is easily taken for a set."""
    if values is None:
        return {}
    if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
        raise MotetError(
            f'set is {shown(values)}; accepted: a dictionary by dotted names, such as {{"local.momentum": 0.5}}'
        )
    return values


def resume(folder: AnyPath, *, progress: bool = False, trust_code: bool = False, track: Sequence[str] = ()) -> Result:
    """Continue a run that was stopped at any moment.

    A folder may name Python code (a method, net, source or metric by import). Code that you ran before, from the same
    file as it is now, runs again; other code only with `trust_code`.
    """
    console = Console(stderr=True, quiet=not progress)
    with onlooker(console) as watcher, tracked(watcher, track, warnings.warn) as logged:
        logged.finished(runs.resume(user_path(folder, "folder"), logged, trust_code))
    return Result(folder, trust_code=trust_code)


def load(folder: AnyPath, *, local: AnyPath | None = None, trust_code: bool = False) -> Result:
    """The result of a finished run; beside a run of `local` on the same data it also has who would be better alone.

    Reading figures runs no code of the folder's; its models may need some, which runs as in `resume`.
    """
    return Result(folder, local=local, trust_code=trust_code)


def flat(row: Row) -> Row:
    """A row without dictionaries inside: `family_chosen` becomes columns, `set_aside` the ids it names."""
    columns: Row = {}
    for name, value in row.items():
        if name == "set_aside" and isinstance(value, Mapping):
            columns[name] = [int(client_id) for client_id in value]
        elif isinstance(value, Mapping):
            columns |= {f"{name}.{inner}": found for inner, found in flat(dict(value)).items()}
        else:
            columns[name] = value
    return columns
