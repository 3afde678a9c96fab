"""What message transforms cost: bytes of a round and accuracy, beside none.

    python benchmarks/transforms.py        # a few minutes; writes benchmarks/results/transforms.json

FedAvg on `digits`, dealt to 100 clients, all of them in each of 30 rounds, with logistic regression, which noise leaves
standing. Three seeds. What is there already is not run again: a stopped bench goes on.
"""

import json
import tempfile
from pathlib import Path
from statistics import mean
from typing import Any

from motet.config.experiment import resolve
from motet.runs.environment import environment
from motet.runs.record import Record
from motet.runs.run import run

OUT = Path(__file__).parent / "results" / "transforms.json"
SEEDS = [0, 1, 2]
SETTING: dict[str, Any] = {
    "method": "fedavg(weighting=uniform)",
    "data": {"name": "digits", "clients": 100, "partition": "dirichlet:1.0", "min_size": 2},
    "net": {"name": "logistic"},
    "rounds": {"count": 30, "cohort": 1.0},
    "local": {"epochs": 2, "lr": 0.1},
    "scoring": {"every": 30, "train_loss": False},
}
TRANSFORMS = [
    "",
    "clip(norm=0.5)",
    "int8",
    "int8(feedback=false)",
    "top-k(share=0.1)",
    "top-k(share=0.1, feedback=false)",
    "top-k(share=0.01)",
    "mask",
    "noise(norm=0.5, multiplier=4.0)",
    "noise(norm=0.5, multiplier=8.0)",
    "noise(norm=0.5, multiplier=8.0)+int8",
    "noise(norm=0.5, multiplier=8.0, at=client)+mask",
]


def measured(transforms: str, seed: int) -> dict[str, float | None]:
    """Run one experiment and return its figures: accuracy, bytes per client and round, ε."""
    with tempfile.TemporaryDirectory() as folder:
        record = Record(run(resolve(SETTING | {"transforms": transforms, "seed": seed}), Path(folder) / "run"))
        row, summary = record.rounds[-1], record.summary
        return {
            "accuracy": summary.generic.accuracy,
            "up": row["bytes_up"] // len(row["cohort"]),
            "down": row["bytes_down"] // len(row["cohort"]),
            "epsilon": summary.privacy.epsilon if summary.privacy else None,
        }


def main() -> None:
    """Measure what is missing, print, write after every run."""
    table: dict[str, dict[str, Any]] = {}
    if OUT.exists() and (found := json.loads(OUT.read_text(encoding="utf-8")))["setting"] == SETTING:
        table = found["transforms"]
    for transforms in TRANSFORMS:
        runs = table.setdefault(transforms or "none", {"runs": {}})["runs"]
        for seed in SEEDS:
            if str(seed) not in runs:
                runs[str(seed)] = measured(transforms, seed)
                write(table)
    print("\n".join(lines(table)))


def lines(table: dict[str, dict[str, Any]]) -> list[str]:
    """Return the table of docs/message-transforms.md."""
    found = ["| transforms | accuracy | bytes up | bytes down | ε |", "|---|---|---|---|---|"]
    for name, row in table.items():
        spent = "" if row["epsilon"] is None else f"{row['epsilon']:.3g}"
        found.append(f"| `{name}` | {100 * row['accuracy']:.1f} % | {row['up']:,.0f} | {row['down']:,.0f} | {spent} |")
    return found


def write(table: dict[str, dict[str, Any]]) -> None:
    """Write what was measured so far, with the means over seeds."""
    for row in table.values():
        for name in ("accuracy", "up", "down", "epsilon"):
            values = [run[name] for run in row["runs"].values() if run[name] is not None]
            row[name] = round(mean(values), 4) if values else None
    result = {
        "study": "bytes per client and round, and accuracy of the generic model, by transform",
        "command": "python benchmarks/transforms.py",
        "commit": environment().git_commit,
        "setting": SETTING,
        "seeds": SEEDS,
        "delta": 1e-5,
        "transforms": table,
    }
    OUT.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
