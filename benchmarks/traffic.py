"""Bytes sent in a round, down and up, for every method: measured on the messages themselves.

    python benchmarks/traffic.py        # under a minute; writes benchmarks/results/traffic.json

One gradient step per client on a sliver of FMNIST with the 4-layer CNN (582,026 parameters); the last of four rounds,
when SCAFFOLD, PGFed and FedBasis send all they ever send. Bytes are safetensors bytes, headers included.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

from motet.config.experiment import resolve
from motet.methods import METHODS
from motet.runs.environment import environment
from motet.runs.record import Record
from motet.runs.run import run

SETTING: dict[str, Any] = {
    "data": {"name": "fmnist", "clients": 10, "subset": 0.02, "pool": "all"},  # so the test set is a sliver too
    "rounds": {"count": 4, "cohort": 0.5},
    "local": {"steps": 1},
    "adapt": {"epochs": 1},
    "scoring": {"every": 4},
}
PAPERS = {
    "scaffold": "twice FedAvg (c beside w)",
    "feddyn": "FedAvg's",
    "fedrod": "FedAvg's plus the hypernetwork",
    "pgfed": "about 2.5 x FedAvg (section 4.3)",
    "fedbasis": "K+1 models down and up; here one model and coefficients up",
    "superfed-mm": "FedAvg's",
    "dbe": "FedAvg's, after one vector before the first round",
}


def expressions() -> list[str]:
    """Every name of the registry that changes what is sent, in a sum where it needs one."""
    names = [
        name for name, entry in METHODS.items() if entry.tunes is None and not (entry.whole and entry.whole.pooled)
    ]
    return [*names, "fedrod(head=linear)", "fedrod+scaffold", "fedrod+pgfed"]


def metric(method: str) -> tuple[int, int]:
    """Bytes down and up per client in the last round."""
    with tempfile.TemporaryDirectory() as folder:
        row = Record(run(resolve(SETTING | {"method": method}), Path(folder) / "run")).rounds[-1]
    return row["bytes_down"] // len(row["cohort"]), row["bytes_up"] // len(row["cohort"])


def main() -> None:
    """Measure, print, write."""
    down_0, up_0 = metric("fedavg")
    table = {}
    print(f"{'method':22} {'down':>10} {'up':>10}   down and up as multiples of FedAvg's")
    for method in expressions():
        down, up = metric(method)
        ratios = {
            "down": round(down / down_0, 3),
            "up": round(up / up_0, 3),
            "both": round((down + up) / (down_0 + up_0), 3),
        }
        table[method] = {"down": down, "up": up, "times_fedavg": ratios, "paper": PAPERS.get(method)}
        print(f"{method:22} {down:10,} {up:10,}   {ratios['down']:.2f} {ratios['up']:.2f}", flush=True)
    here = environment()
    result = {
        "study": "bytes per client and round",
        "command": "python benchmarks/traffic.py",
        "commit": here.git_commit,
        "setting": SETTING,
        "methods": table,
    }
    text = json.dumps(result, indent=1, ensure_ascii=False) + "\n"
    (Path(__file__).parent / "results" / "traffic.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
