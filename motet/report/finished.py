"""A finished run as tables need it, whichever Motet wrote it; or one sentence about why it cannot be shown."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from motet.config.experiment import Experiment
from motet.errors import MotetError
from motet.io.locks import is_running
from motet.io.text import printable
from motet.metrics.names import AFTER, PERSONAL, MetricName
from motet.metrics.over_clients import INSTEAD_OF, worse_off
from motet.runs.clients_file import ClientsInfo, read_clients_info
from motet.runs.local_baseline import LOCAL, beside_local
from motet.runs.record import Record
from motet.runs.summary import values_of_clients

_WRONG = (KeyError, TypeError, ValueError, AttributeError, IndexError, AssertionError, RecursionError)


@dataclass(frozen=True)
class Finished:
    """A finished run; `summary` has every figure that its record can tell."""

    folder: Path
    experiment: Experiment
    summary: Mapping[str, Any]
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


def headline_of(summary: Mapping[str, Any]) -> MetricName:
    """The figure that comes first."""
    figure = MetricName.read(summary["reported"]["figure"])
    if figure is None:
        raise ValueError("reported.figure names no figure")
    return figure


def read_finished(folder: Path, local: Record | None = None) -> Finished:
    """A finished run, with what a run of `local` says about it if there is one; else a sentence about what it is."""
    record = Record(folder)
    if not record.finished and is_running(folder):
        raise MotetError(f"run {folder} is still running ({record.how_far})")
    try:
        return _read(record, local)
    except _WRONG:
        raise MotetError(f"{folder / 'summary.json'} is damaged or of another Motet; run it anew") from None


def _read(record: Record, local: Record | None) -> Finished:
    summary, experiment = record.summary, record.experiment
    if "figures" not in summary:
        raise MotetError(f"the summary of run {record.folder} is of an older Motet and has no figures; run it anew")
    _require(summary)
    if local is not None and experiment.method != LOCAL:
        summary = beside_local(record, local)
    return Finished(record.folder, experiment, _completed(record, summary), read_clients_info(record))


def rows_of(record: Record, summary: Mapping[str, Any], new: bool) -> dict[int, Mapping[str, Any]]:
    """Each client's row of the reported round; of new clients there is one round alone."""
    round = summary["reported"]["round"]
    return {row["client"]: row for row in record.clients if bool(row["new"]) == new and (new or row["round"] == round)}


def _completed(record: Record, summary: Mapping[str, Any]) -> Mapping[str, Any]:
    """With the number of clients that are better off, for a run from before that was recorded."""
    headline = headline_of(summary)
    figures = dict(summary["figures"])
    if headline.over("compared_clients").of(figures) is not None or headline.over("hurt").of(figures) is None:
        return summary
    for model, new in ((PERSONAL, False), (AFTER, True)):
        rows = rows_of(record, summary, new).values()
        for data in ("weighted", "split"):
            mine, other = (MetricName(each, data) for each in (model, INSTEAD_OF[model]))
            found = ((mine.of(row), other.of(row)) for row in rows)
            pairs = [(a, b) for a, b in found if a is not None and b is not None]
            figures = worse_off(mine, pairs, "hurt", higher_is_better=True) | figures
    return {**summary, "figures": figures}


def _require(summary: Mapping[str, Any]) -> None:
    """What every table reads, of the type that it has."""
    sent, generic, reported = summary["bytes_per_round"], summary["generic"], summary["reported"]
    texts = (reported["rule"], reported["client_weighting"], reported["figure"])
    numbers = (sent["down"], sent["up"], generic["accuracy"], *summary["figures"].values())
    if not all(isinstance(text, str) for text in texts) or not all(isinstance(n, int | float | None) for n in numbers):
        raise TypeError
    if not isinstance(summary["seconds"], int | float) or not isinstance(generic["derived"], bool):
        raise TypeError
    headline_of(summary)
