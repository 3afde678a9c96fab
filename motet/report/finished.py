"""A finished run as tables need it, or one sentence about why it cannot be shown."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from motet.config.experiment import Experiment
from motet.errors import MotetError
from motet.io.locks import is_running
from motet.io.text import printable
from motet.metrics.names import MetricName
from motet.runs.clients_file import ClientsInfo, read_clients_info
from motet.runs.local_baseline import LOCAL, compared_with_local
from motet.runs.record import Record
from motet.runs.rows import Row
from motet.runs.summary import Summary, values_of_clients


@dataclass(frozen=True)
class Finished:
    """A finished run; `summary` has every figure that its record can tell."""

    folder: Path
    experiment: Experiment
    summary: Summary
    clients_info: ClientsInfo

    @property
    def name(self) -> str:
        """Its folder's."""
        return printable(self.folder.name or self.folder)

    @property
    def method(self) -> str:
        """As a table shows it."""
        return printable(self.experiment.method)

    @property
    def headline(self) -> MetricName:
        """The figure that comes first."""
        return headline_of(self.summary)

    @cached_property
    def by_client(self) -> dict[int, float]:
        """Each client's value of that figure in the reported round; nobody's where the record has no such rows."""
        there = (self.folder / "clients.jsonl").exists()
        return values_of_clients(Record(self.folder), self.headline) if there else {}


def headline_of(summary: Summary) -> MetricName:
    """The figure that comes first."""
    figure = MetricName.read(summary.reported.figure)
    assert figure is not None  # a summary with any other cannot be read
    return figure


def read_finished(folder: Path, local: Record | None = None) -> Finished:
    """A finished run, with what a run of `local` says about it if there is one; else a sentence about what it is."""
    record = Record(folder)
    if not record.finished and is_running(folder):
        raise MotetError(f"run {folder} is still running ({record.how_far})")
    summary, experiment = record.summary, record.experiment
    if local is not None and experiment.method != LOCAL:
        summary = compared_with_local(record, local)
    return Finished(folder, experiment, summary, read_clients_info(record))


def rows_of(record: Record, summary: Summary, new: bool) -> dict[int, Row]:
    """Each client's row of the reported round; of new clients there is one round alone."""
    round = summary.reported.round
    return {row["client"]: row for row in record.clients if row["new"] == new and (new or row["round"] == round)}
