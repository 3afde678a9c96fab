"""Memory with 10,000 clients, each with a model-sized private state: it must not grow with those that took part.

    python benchmarks/memory.py                      # about five minutes and 20 GB of disk; writes results/memory.json
    python benchmarks/memory.py --rounds 5 --out -   # a look; writes nothing

FedAvg whose clients keep their last model (TwoNN, 0.96 MB) on Fashion-MNIST: six samples per client, one step, two
workers. 100 clients take part in a round, so that 87 % have after 200 rounds; states beyond the store's limit are on
disk, and every round is checkpointed. The last round scores all clients; to keep that short, 200 samples of the
official test set are the common one. After each round the memory of the run's process and of all its children is read
from the kernel: Pss counts a shared page once, Rss in every process that maps it.
"""

import argparse
import json
import os
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from motet.config.experiment import Experiment, resolve
from motet.config.nesting import merge
from motet.data.sources import load
from motet.io.memory_limits import keep_freed_memory
from motet.runs.environment import environment, machine_of
from motet.runs.record import Record
from motet.runs.run import run
from motet.server.evaluation import Row

CLIENTS, COHORT, TEST_SAMPLES, POINTS = 10_000, 100, 200, 40
SETTING: dict[str, Any] = {
    "method": "fedavg",
    "data": {"clients": CLIENTS, "partition": "iid", "min_size": 1, "test_share": 0.0},
    "net": {"name": "twonn"},
    "rounds": {"cohort": COHORT},
    "local": {"steps": 1, "batch": 10, "momentum": 0.0},
    "scoring": {
        "every": 1000,
        "test": "common",
        "personal_model": "last_participation",
    },  # the last round is always scored
    "engine": {"name": "pool", "workers": 2},
}


def resident() -> dict[str, int]:
    """Bytes of memory of this process and its children, each shared page counted once (pss) or every time (rss)."""
    children = Path("/proc/self/task").glob("*/children")
    pids = [os.getpid(), *(int(pid) for path in children for pid in path.read_text().split())]
    totals = {"pss": 0, "rss": 0, "parent_pss": 0}
    for pid in pids:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
        kilobytes = {line.split(":")[0]: int(line.split()[1]) for line in lines}
        totals["pss"] += 1024 * kilobytes["Pss"]
        totals["rss"] += 1024 * kilobytes["Rss"]
        totals["parent_pss"] += 1024 * kilobytes["Pss"] * (pid == os.getpid())
    return totals


class Meter:
    """Reads the memory after every round."""

    def __init__(self) -> None:
        self.curve: list[dict[str, Any]] = []
        self.took_part: set[int] = set()

    def started(self, experiment: Experiment, folder: Path, round: int, warning: str | None) -> None:
        """Nothing to read yet."""

    def round(self, row: Row) -> None:
        """One point of the curve."""
        cohort = row["cohort"]
        assert isinstance(cohort, list)
        self.took_part.update(cohort)
        self.curve.append({"round": row["round"], "took_part": len(self.took_part)} | resident())
        point = self.curve[-1]
        print(f"round {point['round']:4}  {point['pss'] / 1e9:.3f} GB  {row['seconds']:.1f} s", flush=True)


def growth(curve: list[dict[str, Any]]) -> dict[str, int]:
    """Medians of the Pss at the beginning (from round 10) and at the end, over a tenth of the rounds each."""
    tenth = max(1, len(curve) // 10)
    early, late = curve[9 : 9 + tenth] or curve[:1], curve[-1 - tenth : -1] or curve[-1:]  # the last one scores
    return {
        "early_pss": round(statistics.median(point["pss"] for point in early)),
        "late_pss": round(statistics.median(point["pss"] for point in late)),
    }


def data_file(folder: Path) -> Path:
    """Fashion-MNIST with a small common test set."""
    raw = load("fmnist", download=False)
    assert raw.split is not None
    kept = np.concatenate([np.flatnonzero(raw.split == 0), np.flatnonzero(raw.split == 1)[:TEST_SAMPLES]])
    np.savez(folder / "fmnist.npz", x=raw.x[kept], y=raw.y[kept], split=raw.split[kept])
    return folder / "fmnist.npz"


def main() -> None:
    """Run, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--out", default=str(Path(__file__).parent / "results" / "memory.json"), help="- = nowhere")
    options = parser.parse_args()
    keep_freed_memory()  # as the command line does
    meter = Meter()
    with tempfile.TemporaryDirectory() as folder:
        setting = merge(SETTING, {"rounds": {"count": options.rounds}})
        data = {"data": {"name": str(data_file(Path(folder)))}}
        record = Record(run(resolve(merge(setting, data)), Path(folder) / "run", meter))
        state = next((record.folder / "checkpoint").glob("client-*.safetensors")).stat().st_size
        seconds = record.summary.seconds
    curve, here = meter.curve, environment()
    peak = max(curve, key=lambda point: point["pss"])
    result = {
        "study": "memory with many clients",
        "command": "python benchmarks/memory.py",
        "commit": here.git_commit,
        "machine": machine_of(here),
        "setting": setting,
        "clients": CLIENTS,
        "took_part": len(meter.took_part),
        "bytes_of_one_private_state": state,
        "bytes_of_all_private_states": state * len(meter.took_part),
        "seconds": round(seconds),
        "peak": peak,
        "growth": growth(curve),
        "curve": [*curve[:: max(1, len(curve) // POINTS)], curve[-1]],
    }
    text = json.dumps(result, indent=1) + "\n"
    if options.out != "-":
        Path(options.out).write_text(text, encoding="utf-8")
    print(
        f"peak {peak['pss'] / 1e9:.2f} GB (Pss), {max(p['rss'] for p in curve) / 1e9:.2f} GB (Rss); {result['growth']}"
    )


if __name__ == "__main__":
    main()
