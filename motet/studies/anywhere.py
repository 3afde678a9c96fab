"""An experiment file that works from any folder: the paths in it are made absolute."""

from pathlib import Path

from motet.config.experiment import Experiment
from motet.config.names import Term, parse
from motet.data.sources.registry import SOURCES
from motet.io.plugins import is_import


def usable_anywhere(experiment: Experiment) -> Experiment:
    """Return the experiment with every path absolute: data, schema, folders, weights, and code of files.

    Names of data sets, nets and methods stay, as do modules by import, which Python finds by its own path.
    """
    data, net = experiment.data, experiment.net
    name = data.name if data.name in SOURCES else _code(data.name) if is_import(data.name) else _path(data.name)
    return experiment.with_(
        {
            "method": "+".join(str(Term(_code(term.name), term.options)) for term in parse(experiment.method)),
            "data": {
                "name": name,
                "dir": _path(data.dir),
                "table_schema": data.table_schema and _path(data.table_schema),
            },
            "net": {"name": _net(net.name), "weights": _path(net.weights)},
            "scoring": {"metrics": [_code(metric) for metric in experiment.scoring.metrics]},
        }
    )


def _path(text: str) -> str:
    """Return an absolute path of something that is there; any other text, such as a name, as it is."""
    path = Path(text).expanduser()
    return str(path.resolve()) if text and path.exists() else text


def _code(text: str) -> str:
    """Return `file.py:Name` with an absolute path; any other text as it is."""
    file, colon, name = text.rpartition(":")
    return f"{_path(file)}{colon}{name}" if file.endswith(".py") and is_import(text) else text


def _net(text: str) -> str:
    term = parse(text, "net", "mlp")[0]
    return str(Term(_code(term.name), term.options)) if is_import(term.name) else text
