"""Where one client's local training spends its time: one process, one thread, methods and the bare loop in turns.

    python benchmarks/local_training.py                                        # every workload, a few minutes
    python benchmarks/local_training.py --workload dbe-cnn --methods fedavg dbe --repeats 15
    python benchmarks/local_training.py --record                               # writes results/local-training.json

The client, its data, its batches and the net are those of benchmarks/throughput.py. A turn is one client's training
without engine, server and record; times are the process's own processor time. Then the profiler of torch says which
operations the time of a step goes to. What is compared here is a step with a step: rounds are throughput.py's.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
from throughput_parts.script import train
from throughput_parts.systems import FEDBASIS, PGFED
from throughput_parts.work import Work
from throughput_parts.workloads import DBE_CNN, FEDROD_CONV, LSTM, RESNET8, TWONN, Workload
from torch.profiler import ProfilerActivity, profile

from motet.config.experiment import resolve
from motet.config.nesting import merge
from motet.io.memory_limits import keep_freed_memory
from motet.messages.message import Message
from motet.messages.task import Task, TaskKind
from motet.runs.environment import environment, machine_of
from motet.server.assembly import assemble

BARE = "bare"
SUBJECTS: dict[str, tuple[Workload, tuple[str, ...]]] = {
    "dbe-cnn": (DBE_CNN, (BARE, "fedavg", "dbe")),
    "fedrod-conv": (FEDROD_CONV, (BARE, "fedavg", "fedrod(head=linear)", "fedrod(head=hyper)", "superfed-mm(start=0)")),
    "twonn": (TWONN, (BARE, "fedavg", "superfed-mm(start=0)", "superfed-lm(start=0)")),
    "resnet8-cifar": (RESNET8, (BARE, "fedavg", "dbe")),
    "lstm-shakespeare": (LSTM, (BARE, "fedavg", "superfed-mm(start=0)")),
    "pgfed-cnn": (PGFED, ("fedavg", "pgfed")),
    "fedbasis-cnn": (FEDBASIS, ("fedavg", "fedbasis(warm_start=0)", "fedbasis(warm_start=0,plain=true)")),
}
SHOWN = 12  # operations of a profile
SAMPLES = 600  # about: a turn must be long enough to time, and short enough for many

Turn = Callable[[], object]


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", choices=SUBJECTS, action="append", help="default: all")
    parser.add_argument("--methods", nargs="+", metavar="NAME", help=f"as in motet run --method, or {BARE}")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--record", action="store_true", help="write results/local-training.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    found = {}
    for name in options.workload or SUBJECTS:
        workload, methods = SUBJECTS[name]
        found[name] = {"what": workload.what} | measure(workload, options.methods or methods, options.repeats)
        show(name, found[name])
    if options.record:
        here = environment()
        command = " ".join(["python benchmarks/local_training.py", *sys.argv[1:]])
        words = {"command": command, "commit": here.git_commit, "machine": machine_of(here)}
        path = Path(__file__).parent / "results" / "local-training.json"
        path.write_text(json.dumps(words | {"workloads": found}, indent=1) + "\n", encoding="utf-8")


def measure(workload: Workload, methods: list[str], repeats: int) -> dict[str, Any]:
    """Milliseconds of a turn, medians over the repeats, and the shares of the operations."""
    values = merge(workload.experiment(quick=True), {"local": {"epochs": 1, "batched_clients": False}})
    client = typical(Work.of(values))
    turns = {name: bare(values, client) if name == BARE else motet(values, client, name) for name in methods}
    seconds: dict[str, list[float]] = {name: [] for name in turns}
    for repeat in range(-1, repeats):
        for name, turn in turns.items():
            began = time.process_time()
            turn()
            if repeat >= 0:
                seconds[name].append(time.process_time() - began)
    first = next(iter(turns))
    return {
        "samples": len(Work.of(values).train[client][1]),
        "repeats": repeats,
        "milliseconds": {name: round(1000 * median(times), 1) for name, times in seconds.items()},
        f"x {first}": {name: quotient(times, seconds[first]) for name, times in seconds.items()},
        "profile": {name: shares(turn) for name, turn in turns.items()},
    }


def quotient(times: list[float], reference: list[float]) -> float:
    """The median over turns of the same repeat."""
    return round(median(a / b for a, b in zip(times, reference, strict=True)), 3)


def typical(work: Work) -> int:
    """The client whose number of samples is nearest to SAMPLES."""
    return min(range(len(work.train)), key=lambda i: abs(len(work.train[i][1]) - SAMPLES))


def bare(values: dict[str, Any], client: int) -> Turn:
    """The loop of a script."""
    work = Work.of(values)
    net, local = work.net(), work.experiment.local
    return lambda: train(net, work.train[client], local, local.lr, work.order(1, client), fused=False)


def motet(values: dict[str, Any], client: int, method: str) -> Turn:
    """Motet's local training, from the same broadcast every time; this client is the whole federation before it."""
    parts = assemble(resolve(merge(values, {"method": method, "engine": {"name": "inline"}})))
    server = parts.method.start()

    def ask(kind: TaskKind, round: int) -> Message:
        task = Task(kind, client, round, parts.method.broadcast(server, client))
        reply = next(iter(parts.engine.run([task]))).reply
        assert reply is not None
        return reply

    if parts.method.prepares:
        server = parts.method.prepared(server, {client: ask("prepare", 0)})
    for round in (1, 2):  # PGFed's first round is FedAvg's
        server = parts.method.aggregate(server, {client: ask("train", round)})
    return lambda: ask("train", 3)


def shares(turn: Turn) -> dict[str, float]:
    """What part of the time each operation takes by itself, the largest first."""
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        turn()
    total = sum(event.self_cpu_time_total for event in seen.key_averages())
    largest = sorted(seen.key_averages(), key=lambda event: -event.self_cpu_time_total)[:SHOWN]
    return {event.key: round(event.self_cpu_time_total / total, 4) for event in largest}


def show(name: str, found: dict[str, Any]) -> None:
    """A few lines for people."""
    print(f"{name}: {found['what']}")
    factors = next(value for key, value in found.items() if key.startswith("x "))
    for method, milliseconds in found["milliseconds"].items():
        print(f"  {method:40} {milliseconds:9.1f} ms  {factors[method]:6.3f}")
        print("   ", ", ".join(f"{key} {share:.1%}" for key, share in found["profile"][method].items()), flush=True)


if __name__ == "__main__":
    main()
