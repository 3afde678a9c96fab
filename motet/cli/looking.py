"""`motet list`, `motet data show` and `motet data schema`."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from motet.cli.console import note, output, write_json, write_text
from motet.data import TablePrepare, build, counts_table, describe_partitions, describe_sources
from motet.errors import MotetError, shown, unknown
from motet.files import write_atomic
from motet.methods import describe_methods
from motet.nets import describe_nets
from motet.post import describe_posts
from motet.report.shading import Shading
from motet.report.tables import catalogue, partition
from motet.runs.experiment import Experiment
from motet.runs.protocols import describe_protocols
from motet.scoring import describe_measures

CATALOGUES: dict[str, Callable[[], Sequence[Mapping[str, Any]]]] = {
    "methods": describe_methods,
    "data": describe_sources,
    "nets": describe_nets,
    "partitions": describe_partitions,
    "posts": describe_posts,
    "protocols": describe_protocols,
    "measures": describe_measures,
}


def show_catalogue(what: str, json: bool) -> None:
    """Names with one line and the paper for each."""
    if what not in CATALOGUES:
        raise unknown("list", what, CATALOGUES)
    rows = CATALOGUES[what]()
    if json:
        write_json(rows)
    else:
        output().print(catalogue([_with_details(row) for row in rows]))


def _with_details(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """What only nets have, as a second line of what they are."""
    if "stages" not in row:
        return row
    takes, stages = ", ".join(row["accepts"]), ", ".join(row["stages"])
    details = f"takes {takes}; stages {stages}; {row['parameters']:,} parameters at {row['example']}"
    return {**row, "summary": f"{row['summary']}\n{details}"}


def show_partition(experiment: Experiment, json: bool) -> None:
    """The class counts of every client, and a picture of them."""
    federation = build(experiment.data, experiment.seed)
    rows = counts_table(federation)
    if json:
        write_json({"clients": rows, "classes": federation.class_names, "notes": federation.notes})
        return
    for said in federation.notes:
        note(said)
    console = output()
    console.print(partition(rows, len(federation.test), federation.class_names))
    console.print()
    console.print(
        Shading([client.counts(federation.classes).tolist() for client in federation.clients], federation.class_names)
    )


def show_schema(experiment: Experiment, out: Path | None = None) -> None:
    """The schema of a table, as TOML: printed, or in a file."""
    federation = build(experiment.data, experiment.seed)
    if not isinstance(federation.prepare, TablePrepare):
        raise MotetError(f"data {shown(experiment.data.name)} is no table; accepted: FILE.csv or FILE.parquet")
    for said in federation.notes:
        note(said)
    text = federation.prepare.schema.to_toml()
    if out is None:
        write_text(text)
    else:
        write_atomic(out, text.encode())
