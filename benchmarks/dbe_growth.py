"""Is DBE slow because p has not grown yet? Scale each client's p in a finished run, and score again without training.

    python benchmarks/dbe_growth.py runs/bench-fmnist-catalogue/runs/fedavg+dbe-seed0 --record dbe-growth

A factor of 0 is the model without p, 1 the run as it ended. If larger factors are better, the direction of p is right
and its length is what more rounds would give.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import torch

from motet.runs.environment import environment, machine_of
from motet.runs.record import Record
from motet.runs.served_models import ModelWorkbench

FACTORS = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
RESULTS = Path(__file__).parent / "results"
BATCH = 500


def accuracies(record: Record) -> dict[str, Any]:
    """Over all clients' own test samples by factor, and the length of each p."""
    bench = ModelWorkbench.with_data(record)
    right, total, lengths = dict.fromkeys(FACTORS, 0), 0, []
    for client in bench.workplace.holdings.clients:
        model = bench.personal_model(client.id).model
        p = next(p for name, p in model.named_parameters() if name.endswith("prbm"))
        learned = p.detach().clone()
        lengths.append(round(float(learned.norm()), 3))
        total += len(client.test)
        with torch.no_grad():
            for factor in FACTORS:
                p.copy_(factor * learned)
                for x, y in client.test.all_batches(BATCH):
                    right[factor] += int((model(x).argmax(1) == y).sum())
    return {"accuracy": {str(f): count / total for f, count in right.items()}, "length_of_p": lengths}


def main() -> None:
    """Measure, print, and keep it if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--record", metavar="NAME", help="keep it as results/NAME.json")
    options = parser.parse_args()
    record, here = Record(options.run), environment()
    found = {
        "method": record.experiment.method,
        "rounds": record.experiment.rounds.count,
        **accuracies(record),
        "command": " ".join(["python benchmarks/dbe_growth.py", *sys.argv[1:]]),
        "commit": here.git_commit,
        "machine": machine_of(here),
    }
    print(json.dumps(found, indent=2))
    if options.record:
        (RESULTS / f"{options.record}.json").write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
