"""Short names of the most common choices: the flags of `motet run` and the keywords of `motet.run`.

An experiment file and `--set` accept them too. Torch is imported only when an experiment is made, so that `motet
--help` is fast.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from motet.config.experiment import Experiment


@dataclass(frozen=True)
class Choice:
    """A field of the experiment that has a short name."""

    field: str
    kind: type[int] | type[float] | type[str] | type[bool] | type[list[str]]
    help: str


CHOICES = {
    "method": Choice("method", str, "such as fedavg, scaffold or fedprox(mu=0.01)+ft"),
    "data": Choice("data.name", str, "a name of `motet list data`, FILE.csv, .parquet, .npz, FOLDER/, FILE.py:source"),
    "label": Choice("data.label", str, "column of a table with the classes"),
    "target": Choice("data.target", str, "what the label is: class or number; default as its values look"),
    "client": Choice("data.client", str, "column that says whose row it is, for the natural partition"),
    "domain": Choice("data.domain", str, "column that says which domain a row belongs to"),
    "group": Choice("data.group", str, "column of rows that are never split, such as a patient's"),
    "time_column": Choice("data.time_column", str, "column that says when a row was made: the latest are tested"),
    "leave_out": Choice("data.leave_out", list[str], "column that nobody learns from; repeatable, or with commas"),
    "schema": Choice("data.table_schema", str, "file of `motet data schema`: how a table becomes network input"),
    "encoding": Choice("data.encoding", str, "of a CSV file, such as latin-1; default utf-8"),
    "decimal": Choice("data.decimal", str, "sign before decimals in a table: . or ,"),
    "dates": Choice("data.dates", str, "which comes first in dates such as 03/04/2020: dmy or mdy"),
    "drop_missing": Choice("data.drop_missing", bool, "leave out rows without a label or client, and say how many"),
    "data_dir": Choice("data.dir", str, "folder to look in first for data by name; then MOTET_DATA and the cache"),
    "partition": Choice("data.partition", str, "how samples are dealt, such as dirichlet:0.3"),
    "partition_seed": Choice("data.partition_seed", int, "seed of the dealing; default the run's seed"),
    "clients": Choice("data.clients", int, "number of clients"),
    "new_clients": Choice("data.new_clients", float, "share of clients held out as new"),
    "subset": Choice("data.subset", float, "stratified share of the data to deal"),
    "rounds": Choice("rounds.count", int, "rounds of training"),
    "cohort": Choice(
        "rounds.cohort", float, "clients per round: a number such as 1 or 5, or a share such as 0.4 or 1.0"
    ),
    "epochs": Choice("local.epochs", int, "passes over a client's data per round"),
    "batch": Choice("local.batch", int, "samples per gradient step"),
    "lr": Choice("local.lr", float, "learning rate of the first round"),
    "threshold": Choice(
        "scoring.threshold", str, "of two classes, chosen on validation rows: f1, balanced_accuracy, 'recall>=0.9'"
    ),
    "net": Choice("net.name", str, "a name of `motet list nets`, or FILE.py:build"),
    "head": Choice("net.head", str, "the first stage of the net's head; of a module of yours its last layer"),
    "precision": Choice("precision", str, "of the nets in training: fp32 or bf16"),
    "metric": Choice(
        "scoring.metric",
        str,
        "by which models are judged: accuracy, auroc, balanced_accuracy, ... (motet list metrics)",
    ),
    "engine": Choice("engine.name", str, "where clients compute: auto, inline, pool, ray, or FILE.py:Engine"),
    "workers": Choice("engine.workers", int, "processes that compute clients; default one per core"),
    "ray_address": Choice("engine.ray_address", str, "HOST:PORT of a Ray cluster for --engine ray; default here alone"),
    "seed": Choice("seed", int, "the one source of all randomness"),
    "protocol": Choice("protocol", str, "a paper's way of training and measuring (motet list protocols)"),
}
FIELDS = {name: choice.field for name, choice in CHOICES.items()}
STUDY_CHOICES = [name for name in FIELDS if name not in ("data", "method")]
"""The short names that a study accepts, besides its data and methods."""
ENGINE_CHOICES = [name for name, field in FIELDS.items() if field.startswith("engine.")]
"""The short names of [engine], which change no number."""


def engine_of(short: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of [engine] that these short names choose."""
    chosen = {name: short.get(name) for name in ENGINE_CHOICES}
    return {FIELDS[name].removeprefix("engine."): value for name, value in chosen.items() if value is not None}


def choose(
    short: Mapping[str, Any],
    file: Path | None = None,
    *settings: Mapping[str, Any],
    beside: Sequence[Mapping[str, Any]] = (),
) -> "Experiment":
    """Return the experiment of these choices; a later layer wins: defaults, protocol, file, short names, settings.

    `beside` are more choices of the same layer as the short names. Each layer is checked by itself and may not
    contradict itself, so that a mistake is reported even if a later layer overrides it.
    """
    from motet.config.experiment import read, resolve
    from motet.config.layers import one_layer
    from motet.config.nesting import merge

    layers = [
        one_layer([read(file)] if file else [], f"experiment file {file}"),
        one_layer([short, *beside], "the command"),
        one_layer(settings, "--set"),
    ]
    for layer in layers:
        resolve(layer)
    return resolve(merge(*layers))
