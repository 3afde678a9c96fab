"""Tables for people: runs side by side, the catalogue, a partition."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from motet.fields import dotted_fields
from motet.report.columns import figure_columns, headline_of
from motet.report.packed import Packed
from motet.runs.experiment import Experiment

MOST_DIFFERENCES = 3
MOST_CLASSES = 20

_TESTS = {
    "weighted": "personal accuracy on the common test set, weighted by each client's classes",
    "split": "personal accuracy on each client's own test split",
}
_WEIGHTINGS = {"uniform": "mean over clients", "by_samples": "mean over clients by samples"}
_REPORTS = {
    "last": "last round",
    "best": "best round on test data",
    "best_on_validation": "best round on validation data",
}


@dataclass(frozen=True)
class Finished:
    """A finished run, as a table needs it."""

    name: str
    experiment: Experiment
    summary: Mapping[str, Any]


def comparison(runs: Sequence[Finished]) -> Group:
    """Finished runs side by side: one row each, with the fields in which they differ."""
    differing = differing_fields([run.experiment for run in runs])
    shown, left_out = differing[:MOST_DIFFERENCES], differing[MOST_DIFFERENCES:]
    labels = [(run.experiment.method, *(field_of(run.experiment, name) for name in shown)) for run in runs]
    named = len(set(labels)) < len(labels)  # twins are told apart by their folders
    columns = figure_columns([run.summary for run in runs])
    table = Packed(
        [name.replace(".", ".\n") for name in ("method", *shown, *(["run"] if named else []))],
        [[*map(str, label), *([run.name] if named else [])] for run, label in zip(runs, labels, strict=True)],
        [column.title for column in columns],
        [[column.text(run.summary) for column in columns] for run in runs],
    )
    lines: list[Packed | Text] = [_title(runs[0].experiment, differing), Text(), table, Text(), _measured(runs)]
    if left_out:
        lines.append(Text(f"The runs also differ in {', '.join(left_out)}.", style="dim"))
    return Group(*lines)


def catalogue(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Names with one line and the paper for each."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("name", no_wrap=True)
    table.add_column("what it is", ratio=3)
    table.add_column("paper", ratio=2)
    for row in rows:
        name = f"{row['name']}:{row['argument']}" if row.get("argument") else str(row["name"])
        about = Text(str(row["summary"]))
        if row.get("options"):
            about.append(f"\noptions: {_options(row['options'])}", style="cyan")
        table.add_row(Text(name), about, Text(str(row["paper"]), style="dim"))
    return table


def partition(clients: Sequence[Mapping[str, Any]], test_samples: int) -> Group:
    """The class counts of every client."""
    classes = len(clients[0]["counts"])
    wide = classes > MOST_CLASSES
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    columns = ["classes", "largest"] if wide else [f"c{c}" for c in range(classes)]
    splits = [split for split in ("train", "val", "test") if any(client[split] for client in clients)]
    for column in ("client", *columns, *splits, "total"):
        table.add_column(column, justify="right", no_wrap=True)
    for client in clients:
        counts: list[int] = client["counts"]
        cells = [sum(1 for n in counts if n), max(counts)] if wide else counts
        what = "new" if client["new"] else "malicious" if client.get("malicious") else ""
        name = f"{client['id']} {what}".strip()
        table.add_row(name, *map(str, [*cells, *(client[split] for split in splits), sum(counts)]))
    total = sum(sum(client["counts"]) for client in clients)
    note = f"{len(clients)} clients, {total} samples dealt, {test_samples} in the common test set"
    return Group(table, Text(), Text(note, style="dim"))


def differing_fields(experiments: Sequence[Experiment]) -> list[str]:
    """The dotted fields that are not the same in all of them, besides the method and where the work ran."""
    names = [name for name, _ in dotted_fields(Experiment) if not name.startswith(("method", "engine.", "checkpoint."))]
    return [name for name in names if len({repr(field_of(e, name)) for e in experiments}) > 1]


def field_of(experiment: Experiment, dotted: str) -> object:
    """The value of a dotted field."""
    return reduce(getattr, dotted.split("."), experiment)


def _title(experiment: Experiment, differing: Sequence[str]) -> Text:
    """What the runs have in common."""
    data = experiment.data
    facts = {
        "data.name": data.name,
        "data.partition": data.partition,
        "data.clients": f"{data.clients} clients",
        "data.new_clients": f"{100 * data.new_clients:.0f} % of them new" if data.new_clients else "",
        "net.name": f"net {experiment.net.name}",
        "rounds.count": f"{experiment.rounds.count} rounds",
        "seed": f"seed {experiment.seed}",
    }
    natural = {"data.clients"} if data.partition == "natural" else set()
    return Text(", ".join(v for k, v in facts.items() if v and k not in {*differing, *natural}), style="bold")


def _measured(runs: Sequence[Finished]) -> Text:
    """What the figures mean, as far as it is the same for all."""
    words = ["Accuracies in percent"]
    rules = [run.summary["reported"] for run in runs]
    for meanings, values in (
        (_TESTS, {headline_of(run.summary).data for run in runs}),
        (_WEIGHTINGS, {rule["client_weighting"] for rule in rules}),
        (_REPORTS, {rule["rule"] for rule in rules}),
    ):
        if len(values) == 1:
            words.append(meanings[values.pop()])
    if any(headline_of(run.summary).among for run in runs):
        words.append("over benign clients")
    if any(headline_of(run.summary).over("hurt").of(run.summary["figures"]) is not None for run in runs):
        words.append("hurt: share of clients that their personal model serves worse")
    if any(run.summary["generic"]["derived"] for run in runs):
        words.append("* no model of the method: the mean of the personal models")
    return Text("; ".join(words) + ".", style="dim")


def _options(options: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={_option(value)}" for name, value in options.items())


def _option(value: object) -> str:
    """As it would be typed; None cannot be, it is what leaving out means."""
    return "left out" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
