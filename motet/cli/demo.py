"""`motet demo`: the methods side by side on a small federation whose clients need different models."""

from itertools import count
from pathlib import Path

from motet.cli.console import messages, note, output
from motet.cli.looking import page_at_the_end
from motet.cli.process import told_how_to_go_on
from motet.cli.running import side_by_side
from motet.config.short_names import choose
from motet.report.progress import onlooker
from motet.report.tables.runs import comparison
from motet.runs.folder import new_folder
from motet.runs.record import default_folder
from motet.runs.run import run

METHODS = (
    "local",
    "fedavg",
    "fedavg+ft",
    "fedprox",
    "scaffold",
    "feddyn",
    "fedrod",
    "pgfed",
    "fedbasis",
    "superfed-mm",
    "fedavg+dbe",
    "centralized",
)
SETTING = {
    "data": "digits-domains",
    "partition": "natural",
    "new_clients": 0.2,
    "rounds": 40,
    "cohort": 0.4,
    "epochs": 5,
    "batch": 20,
    "lr": 0.05,
}
MORE = {
    "local": {"momentum": 0.0},  # plain SGD
    "adapt": {"lr": 0.05},  # new clients learn as fast as the others
    "scoring": {"test": "common"},  # clients' own test data are few
}


def compare(base: Path = Path("runs")) -> None:
    """Run every method in the same setting and print one table."""
    folder = _new_folder(base)
    folders = []
    way_on = f"stopped; `motet show {folder}` shows what is finished"
    with onlooker(messages(), lines=1) as watcher, told_how_to_go_on(lambda: way_on):
        for method in METHODS:
            experiment = choose({**SETTING, "method": method}, None, MORE)
            folders.append(run(experiment, default_folder(experiment, folder), watcher))
    output().print(comparison(side_by_side(folders)))
    page_at_the_end([folder], folder)
    note(f"Recorded in {folder}; `motet show {folder}` shows this table again.")


def _new_folder(base: Path) -> Path:
    """Return the folder demo, or demo-2 and so on if that exists."""
    names = (base / (f"demo-{number}" if number > 1 else "demo") for number in count(1))
    return new_folder(lambda: next(names))
