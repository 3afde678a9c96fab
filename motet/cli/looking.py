"""`motet list`, `motet data show`, `motet data schema`, `motet report`, `motet figures`."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from motet.api.comparison import PAGE
from motet.api.pages import report
from motet.cli.console import note, output, write_json, write_text
from motet.config.data_section import AUTO, DataSettings
from motet.config.experiment import Experiment
from motet.config.presets import describe_protocols
from motet.data import (
    Federation,
    TablePrepare,
    build,
    counts_table,
    describe_partitions,
    describe_sources,
    fetch_source,
    locate_sources,
)
from motet.data.column_sums import SiteSums, merged_schema, sums_of_table
from motet.data.own_site import read_site_table
from motet.data.schema import CategoryColumn
from motet.errors import MotetError, shown, unknown
from motet.io.files import write_atomic
from motet.io.text import printable
from motet.io.user_paths import read_small
from motet.messages.transforms import describe_transforms
from motet.methods import describe_methods
from motet.metrics.registry import describe_metrics
from motet.nets import describe_nets
from motet.report.page import write_figures, write_report
from motet.report.tables.catalogue import Shading, catalogue, details, partition
from motet.report.tables.layout import Prose

# -------- `motet report` and `motet figures`


def write_page(folders: Sequence[Path], out: Path) -> None:
    """Write the page and print where it is."""
    _say(f"Report in {report(*folders, out=out)}")


def write_figures_learned(folders: Sequence[Path], out: Path, format: str) -> None:
    """Write the charts as files and print where they are."""
    found = write_figures(folders, out, format)
    _say(f"{len(found)} pictures in {out}")


def page_at_the_end(folders: Sequence[Path], folder: Path) -> None:
    """Write the page of runs that just ended into their folder; if that fails, print a note."""
    try:
        note(f"Report in {write_report(folders, folder / PAGE)}")
    except MotetError as error:
        note(f"no report: {error}")
    except Exception as error:  # a failing page must not hide the table of the runs
        note(f"no report ({type(error).__name__}: {error}), which is a mistake of Motet; the record is whole")


def _say(text: str) -> None:
    output().print(printable(text), markup=False, soft_wrap=True)


# -------- `motet list` and `motet data`


CATALOGUES: dict[str, Callable[[], Sequence[Mapping[str, Any]]]] = {
    "methods": describe_methods,
    "data": describe_sources,
    "nets": describe_nets,
    "partitions": describe_partitions,
    "transforms": describe_transforms,
    "protocols": describe_protocols,
    "metrics": describe_metrics,
}


def show_catalogue(what: str, json: bool) -> None:
    """Print all names of one kind (methods, nets, data, ...) with a summary and the paper of each."""
    if what not in CATALOGUES:
        raise unknown("list", what, CATALOGUES)
    rows = CATALOGUES[what]()
    if json:
        write_json(rows)
    else:
        output().print(catalogue([_with_details(row) for row in rows]))


def _with_details(row: Mapping[str, Any]) -> Mapping[str, Any]:
    more = details(row)
    return {**row, "summary": f"{row['summary']}\n{more}"} if more else row


def show_partition(experiment: Experiment, json: bool) -> None:
    """Print the class counts of every client, and a drawing of them."""
    federation = build(experiment.data, experiment.seed)
    rows = counts_table(federation)
    if json:
        write_json(
            {"clients": rows, "classes": federation.class_names, "origin": federation.origin, "notes": federation.notes}
        )
        return
    console = output()
    aside = None if federation.test_is_clients else len(federation.test)
    console.print(partition(rows, aside, federation.class_names))
    console.print()
    if not federation.target:
        counts = [client.counts(federation.classes).tolist() for client in federation.clients]
        console.print(Shading(counts, federation.class_names))
    for line in filter(None, (federation.origin, *federation.notes)):
        console.print(Prose(printable(line), "dim"))


def show_schema(experiment: Experiment, out: Path | None = None) -> None:
    """Print the schema of a table as TOML, or write it to a file."""
    federation = _federation_of_a_table(experiment)
    if not isinstance(federation.prepare, TablePrepare):
        raise MotetError(f"data {shown(experiment.data.name)} is no table; accepted: FILE.csv or FILE.parquet")
    for said in federation.notes:
        note(said)
    text = federation.prepare.schema.to_toml()
    if out is None:
        write_text(text)
    else:
        write_atomic(out, text.encode())


def _federation_of_a_table(experiment: Experiment) -> Federation:
    """Return the federation of a table; one that names no clients, and is too small for simulated ones, is a site's."""
    try:
        return build(experiment.data, experiment.seed)
    except MotetError:
        data = experiment.data
        if data.client is not None or data.partition != AUTO:
            raise
        return build(data.model_copy(update={"partition": "iid", "clients": 1}), experiment.seed)


def write_sums(data: DataSettings, path: Path, out: Path) -> None:
    """Write the sums of a site's table to a file that people can read."""
    found = sums_of_table(data, path)
    write_atomic(out, found.to_json(indent=2))
    note(f"{out} tells sums of {len(found.columns)} columns over {found.rows:,} rows; look at it before you send it")


def merge_sums(paths: Sequence[Path], out: Path | None) -> None:
    """Print the schema of several sites' sums as TOML, or write it to a file."""
    sites = {}
    for path in paths:
        try:
            sites[path.name] = SiteSums.from_json(read_small(path, MOST_SUMS, str(path)), str(path))
        except OSError as error:
            raise MotetError(f"cannot read {path}: {error.strerror}; accepted: a file of `motet data sums`") from None
    schema, notes = merged_schema(sites)
    for said in notes:
        note(said)
    if out is None:
        write_text(schema.to_toml())
    else:
        write_atomic(out, schema.to_toml().encode())


MOST_SUMS = 2**26


def check_table(data: DataSettings, path: Path, schema: Path, json: bool) -> None:
    """Read a table by a schema as `motet join` does, and print how it fits: rows, holes and unknown categories."""
    table = read_site_table(data, path, schema)
    x, columns = table.raw.x, table.schema.columns
    holes = {name: int(np.isnan(x[:, i]).sum()) for i, name in enumerate(columns)}
    strange = {n: int((x[:, i] == -1).sum()) for i, n in enumerate(columns) if isinstance(columns[n], CategoryColumn)}
    found = {"rows": len(x), "columns": len(columns), "missing": holes, "unknown": strange}
    if json:
        write_json(found)
        return
    _say(f"{path.name} fits {schema.name}: {len(x):,} rows, {len(columns)} columns")
    for what, counts in (("values are missing", holes), ("values are of no category of the schema", strange)):
        named = {name: count for name, count in counts.items() if count}
        for name, count in named.items():
            _say(f"column {shown(name)}: {count:,} {what}")


def show_sources(folder: str, json: bool) -> None:
    """Print the data sets by name, and where each is on this machine."""
    rows = locate_sources(folder)
    if json:
        write_json(rows)
    else:
        output().print(catalogue([_whereabouts(row) for row in rows], "on this machine"))


def _whereabouts(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the row with the licence as second line of its summary, and where the data are or how to get them."""
    way = "" if row["can be fetched"] else " says what to put where"
    where = printable(row["where"]) or f"no: motet data get {row['name']}{way}"
    return {**row, "summary": f"{row['summary']}\nlicence: {row['licence']}", "on this machine": where}


def fetch_data(name: str, folder: str, json: bool) -> None:
    """Download a data set by name and print where it is."""
    paths = [str(path) for path in fetch_source(name, folder, note)]
    if json:
        write_json({"name": name, "files": paths})
    else:
        for path in paths:
            output().print(Prose(printable(path), ""))
