"""The short names for the choices that people make most: the flags of `motet run`, the keywords of `motet.run`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from motet.runs.experiment import Experiment, merge, read, resolve
from motet.runs.toml_text import Values

FIELDS = {
    "method": "method",
    "data": "data.name",
    "partition": "data.partition",
    "partition_seed": "data.partition_seed",
    "clients": "data.clients",
    "new_clients": "data.new_clients",
    "subset": "data.subset",
    "rounds": "rounds.count",
    "cohort": "rounds.cohort",
    "epochs": "local.epochs",
    "batch": "local.batch",
    "lr": "local.lr",
    "net": "net.name",
    "precision": "precision",
    "seed": "seed",
    "protocol": "protocol",
}


def choose(short: Mapping[str, Any], file: Path | None = None, *settings: Mapping[str, Any]) -> Experiment:
    """The experiment of these choices; a later layer wins: defaults, protocol, file, short names, settings."""
    named = [nested(FIELDS[name], value) for name, value in short.items()]
    return resolve(merge(read(file) if file else {}, *named, *settings))


def nested(dotted: str, value: Any) -> Values:
    """`local.lr` and 0.1 as {"local": {"lr": 0.1}}."""
    for name in reversed(dotted.split(".")):
        value = {name: value}
    return dict(value)
