"""Seconds per round at three warm sites with TLS and keys, with models of 1 MB and 40 MB, and memory beside torch.

    python benchmarks/site_rounds.py [--rounds 8] [--quick] [--record benchmarks/results/site-rounds.json]

Real processes on loopback in a network namespace of their own. The local training is one step on few rows, so that a
round is mostly its messages. Memory is the resident set of the SuperLink and of the largest site, less that of a
process which has only imported torch.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from site_runs import NAMES, digits_tables, experiment_values, processes

from motet.runs.environment import environment, machine_of
from motet.runs.record import Record

INSIDE = "MOTET_INSIDE_NAMESPACE"
NETS = {"1 MB": "mlp(hidden=3333)", "40 MB": "mlp(hidden=3120x3120)"}
TORCH = "import torch, psutil; print(psutil.Process().memory_info().rss)"


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--quick", action="store_true", help="two rounds of the small model, to see that it runs")
    parser.add_argument("--record", type=Path)
    asked = parser.parse_args()
    if INSIDE not in os.environ:
        os.environ[INSIDE] = "1"
        up = 'ip link set lo up && exec "$@"'
        os.execvp("unshare", ["unshare", "--net", "sh", "-c", up, "sh", sys.executable, *sys.argv])
    load = round(os.getloadavg()[0], 2)
    alone = int(subprocess.run([sys.executable, "-c", TORCH], capture_output=True, check=True, text=True).stdout)
    nets = dict(list(NETS.items())[:1]) if asked.quick else NETS
    rows = [measured(size, net, 2 if asked.quick else asked.rounds, alone) for size, net in nets.items()]
    for row in rows:
        print(row, flush=True)
    if asked.record:
        here = environment()
        found = {
            "study": "seconds per round at three warm sites, and memory",
            "command": f"python benchmarks/site_rounds.py --rounds {asked.rounds}",
            "commit": here.git_commit,
            "machine": machine_of(here),
            "load_before": load,
            "models": rows,
        }
        asked.record.write_text(json.dumps(found, indent=1) + "\n")


def measured(size: str, net: str, rounds: int, torch_alone: int) -> dict[str, Any]:
    """Return seconds per round after the first, and megabytes of the processes."""
    values = experiment_values("fedavg", rounds, rounds={"cohort": 1.0}, net={"name": net})
    values["local"] |= {"steps": 1, "lr": 0.01}
    values["scoring"] |= {"every": rounds}
    values["data"] |= {"val_share": 0.0}
    most = {"superlink": 0, "site": 0, "coordinator": 0}
    with tempfile.TemporaryDirectory(prefix="motet-rounds-") as name:
        folder = Path(name)
        digits_tables(folder, rows=90)
        with processes(folder, values) as running:
            running.serve("--status-port", "-1")
            running.join_all()
            running.until_round(1)
            pids = {"superlink": [running.superlink()], "coordinator": [running.running["coordinator"].pid]}
            pids["site"] = [running.running[site].pid for site in NAMES]
            while running.running["coordinator"].poll() is None:
                for who, numbers in pids.items():
                    most[who] = max([most[who], *map(resident, numbers)])
                time.sleep(0.1)
            running.finished()
            seconds = [row["train_seconds"] for row in Record(running.out).rounds if row["round"] > 1]
            up = Record(running.out).rounds[-1]["bytes_up"] / len(NAMES) / 1e6
    return {
        "model": size,
        "megabytes_up_per_site": round(up, 2),
        "seconds_median": round(statistics.median(seconds), 2),
        "seconds_most": round(max(seconds), 2),
        "rounds": len(seconds),
        "megabytes_torch_alone": round(torch_alone / 1e6),
        "megabytes_superlink": round(most["superlink"] / 1e6),
        "megabytes_site_beside_torch": round((most["site"] - torch_alone) / 1e6),
        "megabytes_coordinator_beside_torch": round((most["coordinator"] - torch_alone) / 1e6),
    }


def resident(pid: int) -> int:
    """Return the bytes of memory that a process has, 0 after its end."""
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0


if __name__ == "__main__":
    main()
