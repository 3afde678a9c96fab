"""Kill sites, the SuperLink, the coordinator and everything at random moments of runs at real sites; compare the bytes.

    python benchmarks/site_faults.py [--moments 40] [--seed 0] [--record benchmarks/results/site-faults.json]
    python benchmarks/site_faults.py --quick --victims superlink --keep failed

Real processes on loopback, in a network namespace of their own (`unshare`), with TLS and keys; every process is
ended by its id. Each run is struck several times, and must end in the server state, the private states and the
weights of the simulation of the same federation, with nobody set aside and no state lost. A run that does not says
what was wrong and the last words of each process; with `--keep` its whole folder stays.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from site_runs import NAMES, Processes, assert_as_simulated, digits_tables, experiment_values, processes, simulated

from motet.runs.environment import environment, machine_of
from motet.runs.record import Record
from motet.runs.run import run

INSIDE = "MOTET_INSIDE_NAMESPACE"
VICTIMS = ("site", "superlink", "coordinator", "everything")
METHODS = ("scaffold", "ditto")
STRUCK = 5
"""Moments in each run."""


def main() -> None:
    """Do the kills and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moments", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="two moments, to see that it runs")
    parser.add_argument("--victims", default=",".join(VICTIMS), help="whom to kill, such as site,superlink")
    parser.add_argument("--keep", type=Path, help="where folders of runs that failed stay")
    parser.add_argument("--record", type=Path)
    asked = parser.parse_args()
    if INSIDE not in os.environ:
        os.environ[INSIDE] = "1"
        up = 'ip link set lo up && exec "$@"'
        os.execvp("unshare", ["unshare", "--net", "sh", "-c", up, "sh", sys.executable, *sys.argv])
    here = environment()
    draw, rows = random.Random(asked.seed), list[dict[str, Any]]()
    moments = 2 if asked.quick else asked.moments
    while sum(len(row["struck"]) for row in rows) < moments:
        left = moments - sum(len(row["struck"]) for row in rows)
        rows.append(one_run(METHODS[len(rows) % len(METHODS)], min(STRUCK, left), draw, asked))
        print(json.dumps(rows[-1], indent=1).replace("\\n", "\n"), flush=True)
        if asked.record:
            found = {
                "study": "random kills of runs at three real sites",
                "command": f"python benchmarks/site_faults.py --moments {moments} --seed {asked.seed}",
                "commit": here.git_commit,
                "machine": machine_of(here),
                "moments": sum(len(row["struck"]) for row in rows),
                "failed": sum(not row["same"] for row in rows),
                "runs": rows,
            }
            asked.record.write_text(json.dumps(found, indent=1) + "\n")
    wrong = [row for row in rows if not row["same"]]
    print(f"{sum(len(row['struck']) for row in rows)} moments, {len(wrong)} runs with other bytes or none")
    sys.exit(bool(wrong))


def one_run(method: str, times: int, draw: random.Random, asked: argparse.Namespace) -> dict[str, Any]:
    """Run once, struck so many times, and return who was struck in which round and whether the bytes are the same."""
    victims = asked.victims.split(",")
    rounds = 2 * times + 2
    values = experiment_values(method, rounds, rounds={"cohort": 1.0}, local={"epochs": 20})
    struck, began = list[dict[str, Any]](), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="motet-faults-") as name:
        folder = Path(name)
        whole, schema = digits_tables(folder)
        run(simulated(values, whole, schema), folder / "inline")
        with processes(folder, values) as running:
            running.serve("--status-port", "-1")
            running.join_all()
            try:
                for each in range(times):
                    running.until_round(1 + 2 * each)
                    time.sleep(draw.uniform(0.0, 3.0))
                    victim = draw.choice(victims)
                    at = round(time.monotonic() - began, 1)
                    struck.append({"victim": victim, "round": running.rounds(), "at_second": at})
                    strike(running, victim, draw)
                running.finished()
                assert_as_simulated(running, folder / "inline")
                record = Record(running.out)
                recorded = [row["round"] for row in record.rounds]
                assert recorded == list(range(1, rounds + 1)), f"recorded are the rounds {recorded}"
                aside = [row["set_aside"] for row in record.rounds if row["set_aside"]]
                same, why = not aside, str(aside)[:300] if aside else ""
            except AssertionError as error:
                same, why = False, f"{str(error).partition('---')[0]}{running.logs(600)}"
                if asked.keep:
                    shutil.copytree(folder, asked.keep / folder.name)
    seconds = round(time.monotonic() - began, 1)
    return {"method": method, "rounds": rounds, "struck": struck, "same": same, "why": why, "seconds": seconds}


def strike(running: Processes, victim: str, draw: random.Random) -> None:
    """Kill with signal 9, and start again who does not come back by itself; after the end there is nobody to kill."""
    if running.running["coordinator"].poll() is not None:
        return
    names = [draw.choice(NAMES)] if victim == "site" else list(NAMES) if victim == "everything" else []
    if victim == "superlink":
        os.kill(running.superlink(), signal.SIGKILL)
    if victim in ("coordinator", "everything"):
        running.kill("coordinator")
    for name in names:
        running.kill(name)
    time.sleep(draw.uniform(0.0, 2.0))
    if victim in ("coordinator", "everything"):
        running.serve_again()
    for name in names:
        running.join(name)


if __name__ == "__main__":
    main()
