"""The results of a comparison's finished runs: a table of clients and seeds for each method."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from motet.errors import MotetError
from motet.metrics.metric import RELATIVE_MARGIN, Metric, SampleMetric
from motet.metrics.names import GENERIC, MAJORITY, PERSONAL, MetricName
from motet.metrics.registry import ACCURACY, known_metric
from motet.metrics.statistics import ONE_SPLIT, Resplits, Table
from motet.runs.clients_file import ClientsInfo, read_clients_info
from motet.runs.failures import counted_warnings, failed
from motet.runs.record import Record
from motet.runs.rows import Row
from motet.runs.summary import Summary, values_of_clients
from motet.runs.thresholds_file import read_thresholds

_SMALLEST_MARGIN = 1e-9  # of a metric that is 0 everywhere


@dataclass(frozen=True)
class Ran:
    """The runs of one method, one per seed."""

    folders: tuple[Path, ...]
    personal: Table  # clients × seeds
    generic: Table | None
    common: float | None  # the generic model over all samples of the common test set, mean over seeds
    bytes_per_round: float | None
    seconds: float
    new_clients: Mapping[str, float] | None
    reported: Mapping[str, Any]  # which figures and models of the runs the tables hold
    warnings: tuple[str, ...] = ()  # what failed in its runs
    failed: bool = False  # whether that is enough not to recommend it
    climb: float | None = None  # how much the personal models gained in the last fifth of the rounds, mean over seeds
    pooled: float | None = None  # the personal models over all clients' test rows at once, mean over runs
    majority: Table | None = None  # clients × seeds: what always answering with the client's most frequent class has
    loss: float | None = None  # of the personal models on the same rows, mean over clients and runs
    at_threshold: Mapping[str, float] | None = None  # what their thresholds give on test rows, mean over runs


@dataclass(frozen=True)
class Results:
    """The results of all methods on the same clients."""

    methods: Mapping[str, Ran]
    clients: tuple[int, ...]
    clients_info: ClientsInfo
    figure: MetricName
    metric: Metric = ACCURACY
    resplits: Resplits = ONE_SPLIT  # how many splits of the clients' rows there are among the runs

    @property
    def splits(self) -> int:
        """Return how many splits of the clients' rows there are among the runs."""
        return self.resplits.splits

    @property
    def threshold(self) -> str:
        """Return what thresholds were chosen for; empty where none were asked for."""
        return Record(next(iter(self.methods.values())).folders[0]).experiment.scoring.threshold

    @property
    def personal(self) -> dict[str, Table]:
        """Return the tables of the personal models, by method."""
        return {name: ran.personal for name, ran in self.methods.items()}

    @property
    def goodness(self) -> dict[str, Table]:
        """Return the same tables in which higher values are better, whatever the metric."""
        return {name: self.metric.direction * table for name, table in self.personal.items()}

    @property
    def majority(self) -> float | None:
        """Return what always answering with a client's most frequent class has, mean over clients and seeds."""
        found = next((ran.majority for ran in self.methods.values() if ran.majority is not None), None)
        return None if found is None else float(found.mean())

    @property
    def median_rows(self) -> float:
        """Return how many training rows the median client has, among those that are compared."""
        return float(np.median([self.clients_info.by_id[client].train for client in self.clients]))

    @property
    def test_rows(self) -> list[int]:
        """Return how many test rows each client has that is compared; empty where they are scored on a common set."""
        if self.figure.data != "split":
            return []
        return [self.clients_info.by_id[client].test or 0 for client in self.clients]

    @property
    def left_out(self) -> list[str]:
        """Return the names of training clients that lack a value in some run."""
        compared = set(self.clients)
        return [each.name for each in self.clients_info.clients if not each.new and each.id not in compared]

    def name(self, client: int) -> str:
        """Return the name of a client."""
        found = self.clients_info.by_id.get(client)
        return found.name if found else str(client)


def read_results(folders: Mapping[str, Sequence[Path]]) -> Results:
    """Return the results of finished runs on one federation; a client that lacks a value in some run is left out."""
    records = {name: [Record(folder) for folder in each] for name, each in folders.items()}
    first = next(iter(records.values()))[0]
    figure = MetricName.read(first.summary.reported.figure)
    assert figure is not None
    metric = known_metric(figure.metric, first.summary.reported.higher_is_better)
    own = MetricName(PERSONAL, figure.data, figure.metric)
    values = {name: [values_of_clients(record, own) for record in each] for name, each in records.items()}
    everywhere = set.intersection(*(set().union(*each) for each in values.values()))
    clients = tuple(sorted(everywhere))
    if not clients:
        why = "" if metric is ACCURACY else f" with the metric {figure.metric}"
        raise MotetError(f"no client has test data to compare methods by{why}; see {first.folder / 'clients.jsonl'}")
    methods = {name: _ran(records[name], _table(values[name], clients), clients, figure, metric) for name in records}
    metric = metric if metric.margin else replace(metric, margin=margin_in_its_unit(methods.values(), metric))
    splits = len({record.experiment.data.resplit for record in next(iter(records.values()))})
    info = read_clients_info(first)
    return Results(methods, clients, info, figure, metric, Resplits(splits, _rows_ratio(info, clients)))


def _rows_ratio(info: ClientsInfo, clients: Sequence[int]) -> float:
    """Return how many test rows there are per row that the compared clients learn from, by a run's own counts."""
    compared = [info.by_id[client] for client in clients]
    return sum(each.test or 0 for each in compared) / max(1, sum(each.train for each in compared))


def _ran(records: Sequence[Record], personal: Table, clients: Sequence[int], figure: MetricName, metric: Metric) -> Ran:
    summaries = [record.summary for record in records]
    generic = _table_of(records, replace(figure, model=GENERIC), clients)
    majority = _table_of(records, replace(figure, model=MAJORITY), clients)
    loss = _table_of(records, replace(figure, model=PERSONAL, metric="loss"), clients)
    common = MetricName(GENERIC, "common", figure.metric, "pooled")
    curve = MetricName(PERSONAL, figure.data, figure.metric, "mean")
    return Ran(
        tuple(record.folder for record in records),
        personal,
        generic,
        _mean([common.of(summary.figures) for summary in summaries]),
        _mean([_sum(summary.bytes_per_round.model_dump()) for summary in summaries]),
        fmean(summary.seconds for summary in summaries),
        _new(summaries),
        summaries[0].reported.model_dump(),
        tuple(counted_warnings([summary.warnings for summary in summaries])),
        failed([summary.warnings for summary in summaries]),
        _mean([climb(record.rounds, curve, metric.direction) for record in records]),
        _mean([_over_all_rows(figure).of(summary.figures) for summary in summaries]),
        majority,
        None if loss is None else float(loss.mean()),
        _at_threshold(records),
    )


def _at_threshold(records: Sequence[Record]) -> dict[str, float] | None:
    """Return what the thresholds of personal models give on all clients' test rows, mean over the runs that have any.

    A run has none if its validation or test rows are of one class.
    """
    found = [
        found.on_test[PERSONAL] for each in records if (found := read_thresholds(each)) and PERSONAL in found.on_test
    ]
    return {name: fmean(values[name] for values in found) for name in found[0]} if found else None


def margin_in_its_unit(ran: Iterable[Ran], metric: Metric) -> float:
    """Return the difference that matters of a metric in a unit of its own: a part of the best mean."""
    best = max((float(each.personal.mean()) for each in ran), key=lambda mean: metric.direction * mean)
    return max(RELATIVE_MARGIN * abs(best), _SMALLEST_MARGIN)


def _over_all_rows(figure: MetricName) -> MetricName:
    """Return the figure over all rows at once: of a mean over rows it is the mean over clients by their rows."""
    of_rows = isinstance(known_metric(figure.metric), SampleMetric)
    return MetricName(PERSONAL, figure.data, figure.metric, "by_samples" if of_rows else "pooled")


def _table_of(records: Sequence[Record], figure: MetricName, clients: Sequence[int]) -> Table | None:
    """Return a figure's table of clients and runs; None where a client lacks it."""
    return table_of([values_of_clients(record, figure) for record in records], clients)


def climb(rounds: Sequence[Row], figure: MetricName, direction: int = 1) -> float | None:
    """Return how much better a figure got in the last fifth of the rounds, in proportion where it was not scored then.

    Better is higher, or with the direction −1 lower.
    """
    scored = [(row["round"], value) for row in rounds if (value := figure.of(row)) is not None]
    if not scored:
        return None
    last, value = scored[-1]
    earlier = [(round, before) for round, before in scored if round <= 0.8 * last]
    if not earlier:
        return None
    round, before = earlier[-1]
    return float(direction * (value - before) * 0.2 * last / (last - round))


def table_of(columns: Sequence[Mapping[int, float]], clients: Sequence[int]) -> Table | None:
    """Return the values as a table of clients and runs; None if some client has no value in any run.

    A client may lack a value on one split, such as an AUROC where its test rows are of one class. Its mean over the
    others stands there then, the same for every method: they are scored on the same rows.
    """
    rows = []
    for client in clients:
        there = [of[client] for of in columns if client in of]
        if not there:
            return None
        rows.append([of.get(client, fmean(there)) for of in columns])
    return np.array(rows)


def _table(columns: Sequence[Mapping[int, float]], clients: Sequence[int]) -> Table:
    table = table_of(columns, clients)
    assert table is not None, "only clients with a value are compared"
    return table


def _new(summaries: Sequence[Summary]) -> dict[str, float] | None:
    found = {
        model: mean
        for model in ("before", "after")
        if (mean := _mean([summary.new_clients.get(model) for summary in summaries])) is not None
    }
    return found or None


def _sum(ways: Mapping[str, Any]) -> float | None:
    down, up = ways["down"], ways["up"]
    return None if down is None or up is None else down + up


def _mean(values: Sequence[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return fmean(there) if there and len(there) == len(values) else None
