"""Memory of the driver with 10,000 clients on two nodes of a Ray cluster: it must not grow with those that took part.

    python benchmarks/ray_memory.py                      # about ten minutes, 20 GB of disk; results/ray-memory.json
    python benchmarks/ray_memory.py --rounds 5 --out -   # a look; writes nothing

The setting of `memory.py`: clients keep their last model (TwoNN, 0.96 MB), 100 take part in a round. The states are too
large for the driver together, so that they stay in the cluster, whose nodes have an object store of 1 GB each and write
the rest to disk. Both nodes are on this machine, in a network namespace with loopback alone. After each round the
memory of the driver is read from the kernel: what is its own (anonymous pages), and its share of all pages it maps.
"""

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

import memory
import psutil
from two_nodes import Nodes, enter_namespace

from motet.config.experiment import Experiment, resolve
from motet.config.nesting import merge
from motet.io.memory_limits import keep_freed_memory
from motet.runs.environment import environment, machine_of
from motet.runs.record import Record
from motet.runs.run import run
from motet.server.evaluation import Row

STORE = 10**9
ROUNDS, POINTS = 100, 25


class Meter:
    """Reads memory and disk after every round."""

    def __init__(self, spill: Path) -> None:
        self.spill = spill
        self.curve: list[dict[str, Any]] = []
        self.took_part: set[int] = set()

    def started(self, experiment: Experiment, folder: Path, round: int, warning: str | None) -> None:
        """Say so if the run begins again."""
        if warning:
            print(warning, flush=True)

    def round(self, row: Row) -> None:
        """Add one point to the curve."""
        cohort, seconds = row["cohort"], row["seconds"]
        assert isinstance(cohort, list) and isinstance(seconds, float)
        self.took_part.update(cohort)
        own, nodes = kilobytes(psutil.Process().pid), [kilobytes(p.pid) for p in psutil.Process().children(True)]
        spilled = sum(file.stat().st_size for file in self.spill.rglob("*") if file.is_file())
        point = {
            "round": row["round"],
            "took_part": len(self.took_part),
            "driver_anonymous": 1024 * own["Pss_Anon"],
            "driver_pss": 1024 * own["Pss"],
            "nodes_pss": 1024 * sum(of["Pss"] for of in nodes),
            "nodes_on_disk": spilled,
            "seconds": round(seconds, 2),
        }
        self.curve.append(point)
        megabytes = {name: value // 10**6 for name, value in point.items() if name.startswith(("driver", "nodes"))}
        print(row["round"], len(self.took_part), megabytes, f"{seconds:.1f} s", flush=True)


def kilobytes(pid: int) -> dict[str, int]:
    """Return the kernel's figures of a process' memory; nothing for one that has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    except (OSError, ProcessLookupError):
        lines = []
    return {"Pss": 0} | {line.split(":")[0]: int(line.split()[1]) for line in lines}


def growth(curve: list[dict[str, Any]]) -> dict[str, int]:
    """Return medians of the driver's own memory over ten rounds at the beginning (from round 10) and at the end."""
    early, late = curve[9:19] or curve[:1], curve[-11:-1] or curve[-1:]  # the last one scores
    return {
        name: round(statistics.median(point["driver_anonymous"] for point in points))
        for name, points in (("early", early), ("late", late))
    }


def main() -> None:
    """Run, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--out", default=str(Path(__file__).parent / "results" / "ray-memory.json"), help="- = nowhere")
    options = parser.parse_args()
    enter_namespace()
    keep_freed_memory()  # as the command line does
    with tempfile.TemporaryDirectory(prefix="motet-memory-") as name:
        folder, spill = Path(name), Path(name) / "spill"
        spill.mkdir()
        nodes = Nodes(object_store_memory=STORE, object_spilling_directory=str(spill))
        try:
            meter = Meter(spill)
            engine = {"name": "ray", "workers": 2}
            setting = merge(memory.SETTING, {"rounds": {"count": options.rounds}, "engine": engine})
            here = {"data": {"name": str(memory.data_file(folder))}, "engine": {"ray_address": nodes.address}}
            record = Record(run(resolve(merge(setting, here)), folder / "run", meter))
            state = next((record.folder / "checkpoint").glob("client-*.safetensors")).stat().st_size
            seconds = record.summary.seconds
        finally:
            nodes.end()
    curve, surroundings = meter.curve, environment()
    result = {
        "study": "memory of the driver with many clients on two nodes of a Ray cluster",
        "command": "python benchmarks/ray_memory.py",
        "commit": surroundings.git_commit,
        "machine": machine_of(surroundings),
        "note": "memory only: other programs ran on the machine, so that the seconds say little",
        "setting": setting,
        "bytes_of_each_object_store": STORE,
        "took_part": len(meter.took_part),
        "bytes_of_one_private_state": state,
        "bytes_of_all_private_states": state * len(meter.took_part),
        "seconds": round(seconds),
        "peak_driver_anonymous": max(point["driver_anonymous"] for point in curve),
        "growth_of_driver_anonymous": growth(curve),
        "curve": [*curve[:: max(1, len(curve) // POINTS)], curve[-1]],
    }
    if options.out != "-":
        Path(options.out).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"driver: peak {result['peak_driver_anonymous'] / 1e6:.0f} MB, {result['growth_of_driver_anonymous']}")


if __name__ == "__main__":
    main()
