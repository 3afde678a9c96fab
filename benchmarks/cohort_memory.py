"""Memory of a round of 200 clients with a model of 10 MB: it must not grow with the cohort.

    python benchmarks/cohort_memory.py                              # a few minutes; prints, and writes nothing
    python benchmarks/cohort_memory.py --before ../old --out FILE   # beside an older checkout, in turns; writes FILE

FedAvg with an MLP of 2.5 million weights on scikit-learn's digits, one step per client, with cohorts of 10 and all,
in one process and with two workers. Each run is a process of its own, which tells the most memory that it ever had
(ru_maxrss); of a pool that is the parent's, where the replies arrive.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from motet.runs.environment import environment, machine_of

CLIENTS, WIDTH, ROUNDS, REPEATS = 200, 1560, 2, 2
COHORTS = (10, 200)
PROGRAM = """
import resource, sys, motet
cohort, engine, out = int(sys.argv[1]), sys.argv[2], sys.argv[3]
result = motet.run(
    data="digits", partition="iid", clients=%d, cohort=cohort, rounds=%d,
    method="fedavg", net="mlp(hidden=%dx%d)", out=out,
    set={"local.steps": 1, "data.min_size": 1, "data.test_share": 0.0, "engine.name": engine, "engine.workers": 2,
         "scoring.every": 100, "scoring.test": "common", "scoring.common_test": "last"},
)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def peak(code: Path, cohort: int, engine: str) -> float:
    """Return the most megabytes that a run of this cohort took, with the Motet of this folder."""
    program = PROGRAM % (CLIENTS, ROUNDS, WIDTH, WIDTH)
    with tempfile.TemporaryDirectory() as folder:
        asked = [sys.executable, "-W", "ignore", "-c", program, str(cohort), engine, f"{folder}/run"]
        done = subprocess.run(
            asked, capture_output=True, text=True, cwd=code, env={**os.environ, "PYTHONPATH": str(code)}
        )
    if done.returncode:
        sys.exit(done.stderr[-2000:])
    return int(done.stdout.splitlines()[-1]) / 1024


def main() -> None:
    """Run in turns, print medians, write them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="an older checkout to run beside this one")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    sides = {"after": Path(__file__).resolve().parents[1]}
    if options.before:
        sides = {"before": options.before.resolve(), **sides}
    found: dict[str, dict[str, list[float]]] = {}
    for _ in range(REPEATS):
        for engine in ("inline", "pool"):
            for cohort in COHORTS:
                for side, code in sides.items():
                    found.setdefault(f"{engine}, cohort {cohort}", {}).setdefault(side, []).append(
                        peak(code, cohort, engine)
                    )
    medians = {case: {side: round(statistics.median(mb)) for side, mb in of.items()} for case, of in found.items()}
    for case, of in medians.items():
        print(f"{case:20}", *(f"{side} {mb} MB" for side, mb in of.items()))
    here = environment()
    result = {
        "study": "memory of a cohort",
        "command": "python benchmarks/cohort_memory.py --before OLD",
        "commit": here.git_commit,
        "machine": machine_of(here),
        "clients": CLIENTS,
        "model_megabytes": 4 * (65 * WIDTH + (WIDTH + 1) * WIDTH + 10 * (WIDTH + 1)) / 1e6,
        "peak_megabytes_of_the_process_where_replies_arrive": medians,
    }
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
