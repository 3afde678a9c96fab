"""Client drift: do SCAFFOLD's and FedDyn's generic models beat FedAvg's where clients differ most?

    nice -n 5 python benchmarks/drift.py            # start or continue; finished runs are skipped
    python benchmarks/drift.py --json               # the last line is the result as one JSON object

Fashion-MNIST, Dir(0.1) over 20 clients, a fifth of the training data, 30 rounds; otherwise FED-ROD's protocol.
The result goes to benchmarks/results/drift.json once every run is there.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from motet.errors import MotetError
from motet.runs.environment import environment
from motet.runs.experiment import Experiment, resolve
from motet.runs.record import Record
from motet.runs.run import resume, run

HERE = Path(__file__).parent
METHODS = {
    "fedavg": "fedavg",
    "fedavg-uniform": "fedavg(weighting=uniform)",  # the average that SCAFFOLD and FedDyn take, without their terms
    "scaffold": "scaffold",
    "feddyn-0.1": "feddyn(lam=0.1)",
    "feddyn-0.01": "feddyn(lam=0.01)",
    "feddyn-0.001": "feddyn(lam=0.001)",
}
SEEDS = (0, 1, 2)
SETTING: dict[str, Any] = {
    "protocol": "fedrod",
    "data": {"name": "fmnist", "partition": "dirichlet:0.1", "clients": 20, "subset": 0.2},
    "net": {"name": "fedrod-conv"},
    "rounds": {"count": 30, "cohort": 0.4},
    "scoring": {"every": 10},
    "engine": {"name": "inline"},
}
# glibc gives large blocks back to the system at every step of training; keeping them is half as fast again.
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "1000000000", "MALLOC_TRIM_THRESHOLD_": "4000000000"}


def experiment(name: str, seed: int) -> Experiment:
    """One run of the benchmark."""
    return resolve(SETTING | {"method": METHODS[name], "seed": seed})


def finish(folder: Path, asked: Experiment) -> Record:
    """The finished record of a run: read, continued or computed."""
    if (folder / "experiment.toml").exists():
        resume(folder)
    else:
        run(asked, folder)
    return Record(folder)


def result(records: dict[str, list[Record]]) -> dict[str, Any]:
    """The generic accuracies of all runs, with what is needed to get them again."""
    here = environment()
    computed_at = {record.environment["git_commit"] for found in records.values() for record in found}
    return {
        "question": "generic accuracy after 30 rounds, Fashion-MNIST Dir(0.1), 20 clients",
        "command": "python benchmarks/drift.py",
        "commit": ", ".join(sorted(map(str, computed_at))),
        "machine": {name: here[name] for name in ("platform", "cpu", "cpu_count", "cpu_instructions", "torch")},
        "setting": SETTING,
        "seeds": list(SEEDS),
        "methods": {name: row(METHODS[name], found) for name, found in records.items()},
    }


def row(method: str, records: list[Record]) -> dict[str, Any]:
    """One method over the seeds."""
    final = [record.summary["generic"]["accuracy"] for record in records]
    curves = [[r["generic_accuracy"] for r in record.rounds if "generic_accuracy" in r] for record in records]
    personal = [record.summary["personal"]["weighted"]["personal_models"] for record in records]
    return {
        "method": method,
        "generic_accuracy": [round(value, 4) for value in final],
        "generic_accuracy_mean": round(statistics.fmean(final), 4),
        "generic_accuracy_std": round(statistics.pstdev(final), 4),
        "generic_accuracy_every_10_rounds": [[round(value, 4) for value in curve] for curve in curves],
        "personal_accuracy_mean": round(statistics.fmean(personal), 4),
        "bytes_per_round": records[0].summary["bytes_per_round"],
        "seconds": [round(record.summary["seconds"]) for record in records],
    }


def main() -> int:
    """Every run that is not there yet, then the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs") / "drift", help="folder of the runs")
    parser.add_argument("--json", action="store_true", help="print the result as one line of JSON")
    parser.add_argument("--only", nargs="*", choices=list(METHODS), default=list(METHODS), help="these methods alone")
    options = parser.parse_args()
    if any(name not in os.environ for name in KEEP_MEMORY):  # read by the C library when a process starts
        return subprocess.run([sys.executable, *sys.argv], env=os.environ | KEEP_MEMORY).returncode
    records: dict[str, list[Record]] = {name: [] for name in options.only}
    for seed in SEEDS:
        for name in options.only:
            record = finish(options.out / f"{name}-seed{seed}", experiment(name, seed))
            records[name].append(record)
            if not options.json:
                print(f"{name:15} seed {seed}  generic {record.summary['generic']['accuracy']:.4f}", flush=True)
    found = result(records)
    if options.only == list(METHODS):
        text = json.dumps(found, indent=2, ensure_ascii=False) + "\n"
        (HERE / "results" / "drift.json").write_text(text, encoding="utf-8")
    if options.json:
        print(json.dumps(found, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except MotetError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
