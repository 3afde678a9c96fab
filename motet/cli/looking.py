"""`motet list` and `motet data show`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from motet.cli.console import note, output, write_json
from motet.data import build, counts_table, describe_partitions, describe_sources, fetch_source, locate_sources
from motet.errors import unknown
from motet.methods import describe_methods
from motet.nets import describe_nets
from motet.post import describe_posts
from motet.printable import printable
from motet.report.prose import Prose
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
    """The class counts of every client."""
    federation = build(experiment.data, experiment.seed)
    rows = counts_table(federation)
    if json:
        write_json(
            {"clients": rows, "classes": federation.class_names, "origin": federation.origin, "notes": federation.notes}
        )
    else:
        output().print(partition(rows, len(federation.test), federation.class_names))
        for line in filter(None, (federation.origin, *federation.notes)):
            output().print(Prose(printable(line), "dim"))


def show_sources(folder: str, json: bool) -> None:
    """The data sets by name, and where each is on this machine."""
    rows = locate_sources(folder)
    if json:
        write_json(rows)
    else:
        output().print(catalogue([_whereabouts(row) for row in rows], "on this machine"))


def _whereabouts(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The licence as a second line of what it is, and where it is or how it would come here."""
    way = "" if row["can be fetched"] else " says what to put where"
    where = printable(row["where"]) or f"no: motet data get {row['name']}{way}"
    return {**row, "summary": f"{row['summary']}\nlicence: {row['licence']}", "on this machine": where}


def fetch_data(name: str, folder: str, json: bool) -> None:
    """Fetch a data set by name and say where it is."""
    paths = [str(path) for path in fetch_source(name, folder, note)]
    if json:
        write_json({"name": name, "files": paths})
    else:
        for path in paths:
            output().print(Prose(printable(path), ""))
