"""Kill workers, nodes and drivers of runs in a Ray cluster at random moments, and compare the bytes with inline's.

    python benchmarks/ray_kills.py [--kills 30] [--seed 0] [--record benchmarks/results/ray-kills.json]

Two nodes on this machine, in a network namespace with loopback alone (`unshare`); every process is ended by its id. A
killed driver is resumed on another cluster. Methods with and without private state, both places of private states.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from two_nodes import Nodes, enter_namespace

from motet.runs.environment import environment, machine_of
from motet.testing.twin import last_states

SETTING = (
    "--data digits --partition dirichlet:0.3 --clients 6 --rounds 12 --cohort 1.0 --epochs 3 "
    "--net mlp(hidden=512x256) --set checkpoint.every=3 --set local.batched_clients=false"
)
WORDS = SETTING.split()
VICTIMS = ("worker", "node", "driver")
METHODS = ("fedavg", "scaffold")
PLACES = ("driver", "cluster")


def main() -> None:
    """Do the kills and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", type=Path)
    asked = parser.parse_args()
    enter_namespace()
    rows: list[dict[str, Any]] = []
    draw = random.Random(asked.seed)
    with tempfile.TemporaryDirectory(prefix="motet-kills-") as name:
        folder = Path(name)
        for method in METHODS:
            undisturbed = motet("run", "--method", method, *WORDS, "--engine", "inline", "--out", str(folder / method))
            assert undisturbed.wait() == 0
        nodes = Nodes()
        try:
            while sum(row["killed"] for row in rows) < asked.kills:
                at = len(rows)
                case = VICTIMS[at % 3], METHODS[at // 3 % 2], PLACES[at // 6 % 2]
                rows.append(one_kill(nodes, folder / f"run-{at}", folder, *case, draw))
                print(rows[-1], flush=True)
                if asked.record:
                    write(asked.record, asked.seed, rows)
        finally:
            nodes.end()
    kills = sum(row["killed"] for row in rows)
    print(f"{kills} kills, {sum(not row['same'] for row in rows)} runs with other bytes or none")


def write(path: Path, seed: int, rows: list[dict[str, Any]]) -> None:
    """Write all rows, with the number of kills, of runs that failed, and of runs that ended with other bytes."""
    here = environment()
    found = {
        "study": "random kills of runs in a Ray cluster of two nodes",
        "command": f"python benchmarks/ray_kills.py --kills 30 --seed {seed}",
        "commit": here.git_commit,
        "machine": machine_of(here),
        "setting": SETTING,
        "kills": sum(row["killed"] for row in rows),
        "failed": sum(row["exit_code"] != 0 for row in rows),
        "differing": sum(row["exit_code"] == 0 and not row["same"] for row in rows),
        "went_back": sum(row["went_back"] for row in rows),
    }
    lines = ",\n  ".join(map(json.dumps, rows))
    path.write_text(f'{json.dumps(found, indent=1)[:-2]},\n "rows": [\n  {lines}\n ]\n}}\n', "utf-8")


def motet(*words: str) -> "subprocess.Popen[bytes]":
    """Start the command `motet`."""
    return subprocess.Popen(
        [sys.executable, "-m", "motet", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def one_kill(
    nodes: Nodes, out: Path, folder: Path, victim: str, method: str, states: str, draw: random.Random
) -> dict[str, Any]:
    """Run once, kill the victim in the middle, let the run come to its end, and compare it with inline's."""
    round, late = draw.randint(1, 9), draw.uniform(0, 0.5)
    address = ("--engine", "ray", "--ray-address", nodes.address, "--workers", "2")
    process = motet("run", "--method", method, *WORDS, *address, "--set", f"engine.states={states}", "--out", str(out))
    rows = out / "rounds.jsonl"
    while process.poll() is None and not (rows.exists() and rows.read_bytes().count(b"\n") >= round):
        time.sleep(0.02)
    time.sleep(late)
    killed = process.poll() is None
    if killed and victim == "worker":
        there = nodes.workers()
        killed = bool(there)
        if there:
            os.kill(draw.choice(there), signal.SIGKILL)
    elif killed and victim == "node":
        nodes.kill_second()
    elif killed:
        process.kill()
    said, code = process.communicate(timeout=300)[1].decode(), process.returncode
    if victim == "node" and killed:
        nodes.replace_second()
    if victim == "driver" and killed:
        again = motet("resume", str(out), "--ray-address", "", "--workers", "2")
        said, code = said + again.communicate(timeout=300)[1].decode(), again.returncode
    back = [line for line in said.splitlines() if "went back to" in line]
    if code:
        print(said[-2000:], file=sys.stderr)
    return {
        **{"victim": victim, "method": method, "states": states, "after_round": round, "killed": killed},
        **{"went_back": bool(back), "exit_code": code, "same": is_same(out, folder / method)},
    }


def is_same(one: Path, other: Path) -> bool:
    """Return whether two runs are finished and have the same rows, models, and states of server and clients."""

    def told(folder: Path) -> Any:
        lines = map(json.loads, (folder / "rounds.jsonl").read_text("utf-8").splitlines())
        rows = [{k: v for k, v in row.items() if "seconds" not in k} for row in lines]
        files = [(folder / name).read_bytes() for name in ("clients.jsonl", "weights.safetensors")]
        return rows, files, last_states(folder)

    return (one / "summary.json").exists() and told(one) == told(other)


if __name__ == "__main__":
    main()
