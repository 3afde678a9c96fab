"""Read finished runs for tables and pages, or raise one sentence about why a run cannot be shown."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from motet.config.experiment import Experiment
from motet.errors import MotetError
from motet.io.locks import is_running
from motet.io.text import printable
from motet.metrics.metric import Metric
from motet.metrics.names import MetricName
from motet.metrics.registry import known_metric
from motet.runs.clients_file import ClientsInfo, read_clients_info
from motet.runs.local_baseline import LOCAL, compared_with_local
from motet.runs.record import Record
from motet.runs.rows import Row
from motet.runs.summary import Summary, values_of_clients


@dataclass(frozen=True)
class Finished:
    """A finished run; `summary` has every figure of its record."""

    folder: Path
    experiment: Experiment
    summary: Summary
    clients_info: ClientsInfo

    @property
    def name(self) -> str:
        """Return the name of its folder."""
        return printable(self.folder.name or self.folder)

    @property
    def method(self) -> str:
        """Return the method as tables show it."""
        return printable(self.experiment.method)

    @property
    def headline(self) -> MetricName:
        """Return the name of the main figure."""
        return headline_of(self.summary)

    @property
    def metric(self) -> Metric:
        """Return the metric of the main figure."""
        return metric_of(self.summary)

    @cached_property
    def by_client(self) -> dict[int, float]:
        """Return each client's value of the main figure in the reported round; empty if the record has no such rows."""
        there = (self.folder / "clients.jsonl").exists()
        return values_of_clients(Record(self.folder), self.headline) if there else {}


def headline_of(summary: Summary) -> MetricName:
    """Return the name of the main figure."""
    figure = MetricName.read(summary.reported.figure)
    assert figure is not None  # reading a summary checks that there is one
    return figure


def metric_of(summary: Summary) -> Metric:
    """Return the metric of the main figure."""
    return known_metric(headline_of(summary).metric, summary.reported.higher_is_better)


def read_finished(folder: Path, local: Record | None = None) -> Finished:
    """Return a finished run, compared with a run of `local` if one is given; raise a MotetError if it is not
    finished."""
    record = Record(folder)
    if not record.finished and is_running(folder):
        raise MotetError(f"run {folder} is still running ({record.how_far})")
    summary, experiment = record.summary, record.experiment
    if local is not None and experiment.method != LOCAL:
        summary = compared_with_local(record, local)
    return Finished(folder, experiment, summary, read_clients_info(record))


def rows_of(record: Record, summary: Summary, new: bool) -> dict[int, Row]:
    """Return each client's row of the reported round; for new clients there is only one round."""
    round = summary.reported.round
    return {row["client"]: row for row in record.clients if row["new"] == new and (new or row["round"] == round)}
