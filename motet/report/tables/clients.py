"""One run client by client, and `motet show --clients`: a row per client and how many gain and lose."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from motet.errors import MotetError
from motet.io.text import printable, shortened
from motet.metrics.metric import ACCURACY, Metric
from motet.metrics.names import AFTER, PERSONAL, MetricName
from motet.metrics.over_clients import INSTEAD_OF
from motet.metrics.pairs import Gain, gain
from motet.metrics.wording import NOTHING, signed_written, title_of_metric, written
from motet.report.finished import Finished, rows_of
from motet.report.tables.layout import Packed, Prose
from motet.runs.clients_file import ClientInfo
from motet.runs.local_baseline import LOCAL, same_clients
from motet.runs.record import Record


@dataclass(frozen=True)
class ClientRow:
    """A client's values of the main figure's metric; `without` is the generic model's, or a new client's before
    adaptation."""

    client: ClientInfo
    local: float | None
    without: float | None
    own: float | None
    gain: Gain | None


@dataclass(frozen=True)
class ClientsOfRun:
    """All clients of a run, those that trained and the new ones."""

    run: Finished
    data: str
    training: list[ClientRow]
    new: list[ClientRow]

    @property
    def has_local(self) -> bool:
        """Return whether a run of `local` is there to compare with."""
        return any(row.local is not None for row in (*self.training, *self.new))

    def as_json(self) -> dict[str, Any]:
        """Return one row for programs; accuracies are fractions."""
        return {
            "run": str(self.run.folder),
            "method": self.run.experiment.method,
            "seed": self.run.experiment.seed,
            "figure": str(MetricName(PERSONAL, self.data, self.run.metric.name)),
            "clients": [_json(row, "generic", "personal") for row in self.training],
            "new_clients": [_json(row, "before", "after") for row in self.new],
            "verdicts": tally(self.training),
            "new_verdicts": tally(self.new),
        }


def tally(rows: Sequence[ClientRow]) -> dict[str, int]:
    """Return how many clients gain, lose and are within noise; `unknown` ones have a gain without an interval."""
    found = Counter(row.gain.verdict for row in rows if row.gain)
    return {verdict: found[verdict] for verdict in ("gain", "lose", "noise", "unknown")}


def clients_of(run: Finished, local: Finished | None) -> ClientsOfRun:
    """Return all clients of a run from its record, beside a run of `local` on the same clients."""
    record, figure = Record(run.folder), replace(run.headline, statistic="", among="")
    baseline = {} if local is None else _local_values(local, figure)
    clients_info = run.clients_info.by_id
    kinds: dict[bool, list[ClientRow]] = {}
    for new, model in ((False, PERSONAL), (True, AFTER)):
        rows = rows_of(record, run.summary, new)
        kinds[new] = [
            _row(clients_info[i], row, replace(figure, model=model), run.metric, baseline.get(i))
            for i, row in sorted(rows.items())
            if i in clients_info
        ]
    return ClientsOfRun(run, figure.data, kinds[False], kinds[True])


def each_beside_local(runs: Sequence[Finished], named: Finished | None) -> list[ClientsOfRun]:
    """Return every run beside its run of `local`, the named one or one among them, which gets no table of its own."""
    if named is not None:
        runs = [run for run in runs if run.folder != named.folder] or runs
        for run in runs:
            _refuse_others(run, named)
    locals_ = [named] if named else [run for run in runs if run.experiment.method == LOCAL]
    found = [(run, _same(locals_, run)) for run in runs]
    others = [pair for pair in found if pair[0].experiment.method != LOCAL]
    used = {id(local) for _, local in others}
    return [clients_of(run, local) for run, local in found if id(run) not in used]


def _same(locals_: Sequence[Finished], run: Finished) -> Finished | None:
    if run.experiment.method == LOCAL:
        return None
    return next((each for each in locals_ if same_clients(each.experiment, run.experiment)), None)


def _refuse_others(run: Finished, local: Finished) -> None:
    if local.experiment.method != LOCAL or not same_clients(run.experiment, local.experiment):
        raise MotetError(
            f"{local.folder} is no run of 'local' on the clients of {run.folder}; accepted: one with the same section "
            f"[data] and the same seed"
        )


def _local_values(local: Finished, figure: MetricName) -> dict[int, float]:
    """Return the value of each client that trains on its own data alone, new clients included."""
    record, found = Record(local.folder), {}
    for new, model in ((False, PERSONAL), (True, AFTER)):
        for i, row in rows_of(record, local.summary, new).items():
            if (value := replace(figure, model=model).of(row)) is not None:
                found[i] = value
    return found


def _row(
    client: ClientInfo, row: Mapping[str, Any], figure: MetricName, metric: Metric, local: float | None
) -> ClientRow:
    without, own = (replace(figure, model=each).of(row) for each in (INSTEAD_OF[figure.model], figure.model))
    return ClientRow(client, local, without, own, gain(row, figure.model, figure.data, metric))


def _json(row: ClientRow, without: str, own: str) -> dict[str, Any]:
    gained = row.gain
    return {
        **row.client.model_dump(),
        "local_baseline": row.local,
        without: row.without,
        own: row.own,
        "gain": None if gained is None else gained.value,
        "interval": None if gained is None or gained.low is None else [gained.low, gained.high],
        "verdict": None if gained is None else gained.verdict,
    }


# -------- `motet show --clients`


WIDEST_TITLE = 60
MANY = 20  # with so many clients, chance alone makes one gain or lose


def client_tables(runs: Sequence[Finished], local: Finished | None = None) -> Group:
    """Return one block per run; a run of `local` becomes the column "local baseline" of the others."""
    lines: list[RenderableType] = []
    for of_run in each_beside_local(runs, local):
        lines += [*([Text()] if lines else []), *_block(of_run)]
    return Group(*lines)


def clients_json(runs: Sequence[Finished], local: Finished | None = None) -> list[dict[str, Any]]:
    """Return the table of clients as JSON for programs."""
    return [of_run.as_json() for of_run in each_beside_local(runs, local)]


def _block(of_run: ClientsOfRun) -> list[RenderableType]:
    run = of_run.run
    title = f"{run.method}, {shortened(printable(run.experiment.data.name), WIDEST_TITLE)}, seed {run.experiment.seed}"
    lines: list[RenderableType] = [Prose(title, "bold"), Text()]
    lines += [_table(of_run, of_run.training, ("generic\nmodel", "own\nmodel")), Text()]
    lines += _verdict(of_run.training, "own model against the generic one")
    if of_run.has_local:
        lines.append(Prose(_against_local(of_run.training, run.metric)))
    if of_run.new:
        lines += [Text(), Prose("New clients, before and after adaptation", "bold"), Text()]
        lines += [_table(of_run, of_run.new, ("before", "after")), Text()]
        lines += _verdict(of_run.new, "after against before")
    values = "Accuracies in percent" if run.metric is ACCURACY else f"Values are {title_of_metric(run.metric)}"
    lines.append(Prose(f"{values} on {_tests(of_run)}.", "dim"))
    return lines


def _table(of_run: ClientsOfRun, rows: Sequence[ClientRow], models: tuple[str, str]) -> Packed:
    named = any(row.client.name != str(row.client.id) for row in rows)
    metric = of_run.run.metric
    columns = {
        "train": [_count(row.client.train) for row in rows],
        "test": [_count(row.client.test) for row in rows] if of_run.data == "split" else [],
        "local\nbaseline": [written(row.local, metric) for row in rows] if of_run.has_local else [],
        models[0]: [written(row.without, metric) for row in rows],
        models[1]: [written(row.own, metric) for row in rows],
    }
    if any(row.gain for row in rows):
        columns["gain"] = [signed_written(row.gain.value, metric) if row.gain else NOTHING for row in rows]
        if any(row.gain and row.gain.low is not None for row in rows):
            columns["95 % interval"] = [_interval(row.gain, metric) for row in rows]
    there = {title: cells for title, cells in columns.items() if cells}
    labels = [[str(row.client.id), *([printable(row.client.name)] if named else [])] for row in rows]
    return Packed(
        ["client", *(["name"] if named else [])], labels, list(there), list(zip(*there.values(), strict=True))
    )


def _verdict(rows: Sequence[ClientRow], how: str) -> list[RenderableType]:
    counts = tally(rows)
    if not any(counts.values()):
        return [Prose("No two models to compare: no client gains or loses.")]
    words = [f"{_many(counts['gain'], 'gain')}, {_many(counts['lose'], 'lose')}, {counts['noise']} within noise"]
    if counts["unknown"]:
        words.append(f"{counts['unknown']} without an interval")
    lines: list[RenderableType] = [Prose(f"{', '.join(words)}: {how}.", "bold")]
    if sum(counts.values()) >= MANY and (counts["gain"] or counts["lose"]):
        lines.append(Prose("Of twenty clients without any difference, one leaves its interval by chance.", "dim"))
    return lines


def _against_local(rows: Sequence[ClientRow], metric: Metric) -> str:
    pairs = [(row.own, row.local) for row in rows if row.own is not None and row.local is not None]
    gains = [metric.direction * (own - local) for own, local in pairs]
    better, worse = sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)
    return f"Against the local baseline: {better} better, {worse} worse, {len(pairs) - better - worse} equal."


def _tests(of_run: ClientsOfRun) -> str:
    """Return a sentence about the test data and where the intervals come from."""
    if of_run.data == "split":
        from_samples = "; 95 % interval from the samples on which the two models differ"
        return "each client's own test data" + (from_samples if of_run.run.metric is ACCURACY else "")
    samples = of_run.run.clients_info.common_test
    size = f" ({samples} samples)" if samples else ""
    return f"the common test set{size}, weighted by each client's classes; 95 % interval from its samples"


def _many(count: int, verb: str) -> str:
    return f"{count} {verb}{'s' if count == 1 else ''}"


def _count(samples: int | None) -> str:
    return NOTHING if samples is None else str(samples)


def _interval(gained: Gain | None, metric: Metric) -> str:
    if gained is None or gained.low is None or gained.high is None:
        return NOTHING
    return f"{signed_written(gained.low, metric):>6} to {signed_written(gained.high, metric):>6}"
