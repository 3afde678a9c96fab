"""Write what was measured of Ray into docs/scale.md, with what follows from it for a million clients.

    python benchmarks/scale_table.py

Run it after `ray_memory.py`; `ray_overhead.py --record` does it by itself. `tests/test_docs_numbers.py` fails where
somebody forgot.
"""

import json
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE, RESULTS = ROOT / "docs" / "scale.md", ROOT / "benchmarks" / "results"
BEGIN, END = "<!-- written by scale_table.py -->\n", "<!-- end of scale_table.py -->\n"

CLIENTS, COHORTS, NODES, CPUS, PARCEL = 1_000_000, (1_000, 10_000), 10, 16, 16
MEGABYTE = 10**6  # of a model, and of a private state
STATES_THERE = "ray, states in the cluster"


def written() -> str:
    """Return the page with its figures replaced by the recorded ones."""
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    return before + BEGIN + "\n" + block() + "\n" + END + rest.partition(END)[2]


def block() -> str:
    """Return the measured constants, and what they come to."""
    cost, memory = read("ray-overhead"), read("ray-memory")
    return "\n".join([*constants(cost), "", *of_memory(memory), "", *arithmetic(cost, memory)]) + "\n"


def read(name: str) -> Any:
    """Return a recorded result; None if there is none."""
    file = RESULTS / f"{name}.json"
    return json.loads(file.read_text("utf-8")) if file.exists() else None


def constants(cost: Any) -> list[str]:
    """Return the lines of what a task costs, and of what rounds take more than with the pool."""
    if cost is None:
        return [_wrapped("What a task costs, and what whole rounds take beside the pool's, is not recorded yet.")]
    lines = [
        _wrapped(
            f"Milliseconds per task whose client does next to nothing (`benchmarks/results/ray-overhead.json`; two "
            f"workers on a machine of two cores, load {cost['load_before']:g} before):"
        ),
        "",
        "| model | private state as large | engine | elapsed | processor, all processes | processor, driver alone |",
        "|---|---|---|---|---|---|",
    ]
    for row in cost["tasks"]:
        state = "yes" if row["clients"] == "state" else "no"
        figures = [row[name] for name in ("milliseconds", "cpu_milliseconds", "driver_cpu_milliseconds")]
        lines.append(
            f"| {row['megabytes']} MB | {state} | {row['engine']} | {' | '.join(f'{ms:.1f}' for ms in figures)} |"
        )
    rounds = [f"{100 * found['ray_takes_more']:+.0f} % on {name}" for name, found in cost["rounds"].items()]
    said = f"Rounds with Ray beside rounds with the pool, in turns: {', '.join(rounds)}."
    return [*lines, "", said if rounds else "What whole rounds take beside the pool's is not recorded yet."]


def of_memory(memory: Any) -> list[str]:
    """Return the lines of what the driver's memory did with 10,000 clients."""
    early, late = (memory["growth_of_driver_anonymous"][when] / 1e6 for when in ("early", "late"))
    return [
        _wrapped(
            f"Memory with 10,000 clients on two nodes (`benchmarks/results/ray-memory.json`): {memory['took_part']:,} "
            f"took part and have {memory['bytes_of_all_private_states'] / 1e9:.1f} GB of states in the cluster; the "
            f"driver's own memory was {early:.0f} MB around round 10 and {late:.0f} MB at the end."
        )
    ]


def arithmetic(cost: Any, memory: Any) -> list[str]:
    """Return the table of a million clients; its seconds only where the cost of a task is recorded."""
    per_client, peak = driver_bytes_per_client(memory), memory["peak_driver_anonymous"]
    rows: dict[str, Callable[[int], str]] = {
        "up to the driver, each reply": lambda c: _bytes(c * MEGABYTE),
        f"the same with `engine.partial_sums = {PARCEL}`": lambda c: _bytes(-(-c // PARCEL) * MEGABYTE),
        "down to the nodes, what all share": lambda c: _bytes(NODES * MEGABYTE),
        "private states between nodes, at most": lambda c: _bytes(c * MEGABYTE * (NODES - 1) // NODES),
        "into a checkpoint, per round since the last": lambda c: _bytes(c * MEGABYTE),
        "memory of the driver": lambda c: _bytes(peak + CLIENTS * per_client),
        "private states on each node, memory and disk": lambda c: _bytes(CLIENTS * MEGABYTE // NODES),
        **(seconds(cost) if cost else {}),
    }
    heads = " | ".join(f"cohort {cohort:,}" for cohort in COHORTS)
    return [
        _wrapped(
            f"What a round of {CLIENTS:,} clients comes to from this, with a model and private states of 1 MB each, on "
            f"{NODES} nodes with {CPUS} CPUs; the driver's memory grew by {per_client / 1000:.1f} kB for each client "
            f"that got a state:"
        ),
        "",
        f"| | {heads} |",
        "|---|---|---|",
        *(f"| {name} | {' | '.join(of(cohort) for cohort in COHORTS)} |" for name, of in rows.items()),
    ]


def seconds(cost: Any) -> dict[str, Callable[[int], str]]:
    """Return the rows of seconds, by the processor's milliseconds per task of 1 MB."""
    plain = next(r for r in cost["tasks"] if r["megabytes"] == 1 and r["engine"] == "ray")
    kept = next(r for r in cost["tasks"] if r["megabytes"] == 1 and r["engine"] == STATES_THERE)
    driver, added = kept["driver_cpu_milliseconds"] / 1000, plain["driver_cpu_milliseconds"] / 1000
    nodes = (kept["cpu_milliseconds"] - kept["driver_cpu_milliseconds"]) / 1000
    return {
        "seconds of the driver's processor": lambda c: f"{c * driver:.0f}",
        "the same with partial sums, at least": lambda c: f"{-(-c // PARCEL) * added:.0f}",
        "seconds of each node beside training": lambda c: f"{c * nodes / NODES / CPUS:.1f}",
    }


def driver_bytes_per_client(memory: Any) -> int:
    """Return by how many bytes the driver grew for each client that got a state, as the curve shows; at least 0."""
    curve = memory["curve"]
    early, late = curve[len(curve) // 4], curve[-2]  # the last round scores all clients
    grown, more = (late[name] - early[name] for name in ("driver_anonymous", "took_part"))
    return max(0, grown // max(1, more))


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 120, break_on_hyphens=False)


def _bytes(count: int) -> str:
    for unit, size in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count / 1000:.3g} kB"


if __name__ == "__main__":
    PAGE.write_text(written(), encoding="utf-8")
