"""FED-ROD's Table 7 at full length: FMNIST, Dir(0.3), 100 clients, 20 per round, 100 rounds, 5 epochs.

    python benchmarks/fedrod_table7.py --row fedavg       # about 45 minutes of one core; resumable
    python benchmarks/fedrod_table7.py --row fedrod       # FedAvg(BRM), linear and hyper together
    python benchmarks/fedrod_table7.py --collect          # writes benchmarks/results/fedrod-table7.json

Both personal heads learn from features and logits behind a stop-gradient, so they never change θ and ψ: with one seed
FedAvg(BRM), linear and hyper have bit for bit the same generic model in every round (tests/test_table7.py). One run
therefore trains θ and ψ once with both heads beside them and scores all three rows.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from motet.config.experiment import resolve
from motet.errors import MotetError
from motet.messages.message import Message
from motet.methods import METHODS
from motet.methods.averaging import Averaging
from motet.methods.base import Facts, Family, MethodEntry, Part, Predictor
from motet.methods.base.personal_model import PersonalModel
from motet.methods.fedrod import FedROD
from motet.metrics.names import GENERIC, PERSONAL, MetricName, member
from motet.nets import Net
from motet.runs.environment import environment, machine_of
from motet.runs.record import Record
from motet.runs.run import resume, run
from motet.training.client import Client

HERE = Path(__file__).parent
GENERIC_ACCURACY = MetricName(GENERIC, "common", statistic="pooled")
SETTING: dict[str, Any] = {
    "protocol": "fedrod",
    "data": {"name": "fmnist"},
    "net": {"name": "fedrod-conv"},
    "scoring": {"every": 50},
    "checkpoint": {"every": 5},
    "engine": {"name": "inline"},  # the two rows have a core each
}
PAPER = {  # G-FL | P-FL by the generic model | P-FL by the personal models
    "FedAvg": [83.4, 83.2, 90.5],
    "linear": [86.3, 86.3, 94.5],
    "hyper": [86.3, 86.3, 94.8],
}


class LinearBeside(FedROD):
    """A linear personal head under a name of its own; the balanced loss comes with the first head."""

    module: ClassVar[str] = "linear_head"

    def brings(self) -> tuple[Part, ...]:
        """Nothing more."""
        return ()


class ThreeRows(Averaging):
    """FedAvg(BRM), FED-ROD linear and FED-ROD hyper in one training."""

    family = Family(("brm", "linear", "hyper"), fixed="hyper")

    def __init__(self, net: Net, options: Averaging.Options, parts: Sequence[Part], facts: Facts):
        super().__init__(net, options, [FedROD(head="hyper"), LinearBeside(head="linear")], facts)

    def member(self, client: Client, message: Message, name: str) -> Predictor:
        """The client's model with one of the heads, or with none."""
        model = self.personal(client, message)
        assert isinstance(model, PersonalModel)
        wanted = {"brm": None, "linear": LinearBeside, "hyper": FedROD}[name]
        notes = zip(self.parts, model.notes, strict=True)
        model.notes = [note if type(part) is wanted else None for part, note in notes]
        return model


THREE_ROWS = MethodEntry("fedrod-three-rows", "BRM, linear and hyper at once", "FED-ROD", whole=ThreeRows)
ROWS = {"fedavg": "fedavg", "fedrod": THREE_ROWS.name}


def compute(row: str, out: Path, watcher: Any = None) -> None:
    """Run or continue one of the two trainings."""
    METHODS[THREE_ROWS.name] = THREE_ROWS
    folder = out / row
    if (folder / "experiment.toml").exists():
        resume(folder, watcher)
    else:
        run(resolve(SETTING | {"method": ROWS[row], "seed": 0}), folder, watcher)


def collect(out: Path) -> dict[str, Any]:
    """Our numbers beside the paper's, in percent: G-FL, P-FL by the generic model, P-FL by the personal models."""
    records = {row: Record(out / row) for row in ROWS}
    last = {row: record.rounds[-1] for row, record in records.items()}
    models = {"FedAvg": PERSONAL, "FedAvg(BRM)": member("brm"), "linear": member("linear"), "hyper": member("hyper")}
    here = environment()
    ours = {}
    for name, model in models.items():
        row = last["fedavg" if name == "FedAvg" else "fedrod"]
        figures = (GENERIC_ACCURACY, *(MetricName(each, "weighted", statistic="mean") for each in (GENERIC, model)))
        ours[name] = [round(100 * row[str(figure)], 2) for figure in figures]
    return {
        "study": "FED-ROD Table 7, FMNIST Dir(0.3), 100 clients, 20 per round, 100 rounds, 5 epochs, one seed",
        "command": "python benchmarks/fedrod_table7.py --row fedavg; --row fedrod; --collect",
        "commit": {row: record.environment.git_commit for row, record in records.items()},
        "machine": machine_of(here),
        "setting": SETTING,
        "columns": ["G-FL generic", "P-FL generic model (Eq. 20)", "P-FL personal models (Eq. 20)"],
        "ours": ours,
        "paper": PAPER,
        "seconds": {row: record.summary.seconds for row, record in records.items()},
    }


class Lines:
    """One line a round."""

    def started(self, experiment: Any, folder: Path, round: int, warning: str | None) -> None:
        """Where the run stands."""
        print(f"{folder.name}: after round {round}", warning or "", flush=True)

    def round(self, row: dict[str, Any]) -> None:
        """The round's time and scores."""
        print(row["round"], round(row["seconds"], 1), GENERIC_ACCURACY.of(row) or "", flush=True)


def main() -> int:
    """Run a row, or write the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--row", choices=list(ROWS))
    parser.add_argument("--collect", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("runs") / "fedrod-table7")
    options = parser.parse_args()
    if options.row:
        compute(options.row, options.out, Lines())
    if options.collect:
        text = json.dumps(collect(options.out), indent=1, ensure_ascii=False) + "\n"
        (HERE / "results" / "fedrod-table7.json").write_text(text, encoding="utf-8")
        print(text)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except MotetError as error:
        sys.exit(f"{error}")
