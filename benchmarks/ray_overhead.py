"""What Ray costs beside the pool on one machine: the same rounds in turns, and the cost of a task by its size.

    python benchmarks/ray_overhead.py --record           # under twelve minutes on an idle machine
    python benchmarks/ray_overhead.py --quick            # a look in two minutes; writes nothing

It writes results/ray-overhead.json, and the figures that follow from it into docs/scale.md (`scale_table.py`).

Rounds: the workloads dbe-cnn and fedrod-conv of `throughput.py`, by its referee: a process for each engine, one round
each in turn. Tasks: clients that add 1 to a model of 1 or 40 MB, ten in a round, on two workers, whose replies the
driver adds up as in a run; without private state, and with one as large as the model, with the driver and in the
cluster. Pool and Ray do a round each in turn. Everything that Ray starts is in a network namespace with loopback alone.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import scale_table
import torch
from throughput_parts import sides
from throughput_parts.contestants import ALONE
from throughput_parts.workloads import WORKLOADS

from motet.engines.client_states import WithStates
from motet.engines.engine import OneByOne
from motet.engines.pool import Pool
from motet.errors import MotetError
from motet.messages.checks import ReplyChecks
from motet.messages.message import State, tensor
from motet.messages.replies import ReplyCollector
from motet.messages.task import Outcome, Task
from motet.runs.environment import environment, machine_of

HERE, INSIDE = Path(__file__).parent, "--inside"
CONTEST = ("dbe-cnn", "fedrod-conv")
REPEATS, QUICK_REPEATS = 7, 2
TASKS, WORKERS, WARM_UP = 10, 2, 2
ROUNDS = {1: 20, 40: 6}  # by megabytes of the model
ENGINES = {"no state": ("pool", "ray"), "state": ("pool", "ray, states with the driver", "ray, states in the cluster")}


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small rounds and few of them; writes nothing")
    parser.add_argument("--record", action="store_true", help="write results/ray-overhead.json and docs/scale.md")
    parser.add_argument("--tasks", action="store_true", help="only the cost of a task, no rounds")
    parser.add_argument(INSIDE, action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.inside:
        json.dump(cost_of_tasks(asked.quick), sys.stdout)
        return
    load = round(os.getloadavg()[0], 2)
    tasks = measured_alone(asked.quick)
    for row in tasks:
        print(row, flush=True)
    rounds = {} if asked.tasks else {name: contest(name, asked.quick) for name in CONTEST}
    for name, found in rounds.items():
        print(name, found, flush=True)
    here = environment()
    result = {
        "study": "Ray beside the pool",
        "command": f"python benchmarks/ray_overhead.py {'--tasks ' * asked.tasks}--record",
        "commit": here.git_commit,
        "machine": machine_of(here),
        "load_before": load,
        "rounds": rounds,
        "tasks": tasks,
    }
    if asked.record and not asked.quick:
        (HERE / "results" / "ray-overhead.json").write_text(json.dumps(result, indent=1) + "\n", "utf-8")
        scale_table.PAGE.write_text(scale_table.written(), "utf-8")


# -------- Rounds of a workload, in turns


def contest(name: str, quick: bool) -> dict[str, Any]:
    """Return the seconds of each round by pool and Ray, and the median of what Ray takes more in the same round."""
    found = sides.measure(WORKLOADS[name], ["pool", "ray"], quick, QUICK_REPEATS if quick else REPEATS)
    if found["skipped"]:
        raise MotetError(f"{name}: {found['skipped']}")
    seconds = found["seconds"]
    more = [there / here - 1 for there, here in zip(seconds["ray"], seconds["pool"], strict=True)]
    return {
        "what": found["setting"]["what"],
        "seconds": {engine: [round(s, 3) for s in of] for engine, of in seconds.items()},
        "ray_takes_more": round(median(more), 3),
    }


# -------- Tasks that do next to nothing


def echo(keeps: bool, task: Task, private: State) -> Outcome:
    """Return the model of the message plus 1, and keep it if the client has a private state."""
    w = tensor(task.build_message(), "w") + 1
    return task.answered({"w": w, "n": 1}, {"model": w} if keeps else None)


def build(keeps: bool) -> OneByOne:
    """Return the work of a worker."""
    return OneByOne(partial(echo, keeps))


def measured_alone(quick: bool) -> list[dict[str, Any]]:
    """Measure the cost of tasks in a process that has a machine of its own: its processes are all there are."""
    words = [*ALONE, sys.executable, __file__, INSIDE, *(["--quick"] if quick else [])]
    paths = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])  # workers import `build`
    done = subprocess.run(words, stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": paths}, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def cost_of_tasks(quick: bool) -> list[dict[str, Any]]:
    """Return one row for each size, kind of state and engine."""
    from motet.engines.ray_cluster import Cluster

    torch.set_num_threads(1)
    rows = []
    cluster = Cluster(workers=2 * WORKERS)  # for both engines that use it at a time
    try:
        for megabytes, rounds in ROUNDS.items():
            for kind, names in ENGINES.items():
                rows += in_turns(kind, names, megabytes, 2 if quick else rounds)
    finally:
        cluster.leave()
    return rows


def in_turns(kind: str, names: tuple[str, ...], megabytes: int, rounds: int) -> list[dict[str, Any]]:
    """Let the engines do a round each in turn; return medians per task."""
    print(f"{megabytes} MB, {kind}: {', '.join(names)}", file=sys.stderr, flush=True)
    engines = {name: engine_of(name, kind == "state") for name in names}
    taken: dict[str, list[Mapping[str, float]]] = {name: [] for name in names}
    try:
        for round in range(-WARM_UP, rounds):
            for name in (*names[round % len(names) :], *names[: round % len(names)]):
                found = one_round(engines[name], round + WARM_UP, megabytes)
                taken[name] += [found] if round >= 0 else []
    finally:
        for engine in engines.values():
            engine.close()
    return [
        {"megabytes": megabytes, "clients": kind, "engine": name, "rounds": rounds}
        | {figure: _rounded(median(one[figure] for one in of)) for figure in of[0]}
        for name, of in taken.items()
    ]


def engine_of(name: str, keeps: bool) -> WithStates:
    """Return an engine of two workers."""
    from ray_overhead import build  # by this name, workers can import it

    samples = dict.fromkeys(range(TASKS), 1)
    if name == "pool":
        return Pool(partial(build, keeps), WORKERS, samples)
    from motet.engines.ray import Ray

    return Ray(partial(build, keeps), WORKERS, samples, states="cluster" if "cluster" in name else "driver")


def one_round(engine: WithStates, round: int, megabytes: int) -> dict[str, float]:
    """Do ten tasks and add up their replies; return milliseconds per task: of the clock, of all CPUs, of the driver."""
    w = torch.full((megabytes * 250_000,), float(round))
    rules: dict[str, Any] = {"w": "mean", "n": "sum"}
    collector = ReplyCollector(ReplyChecks(rules), rules, lambda _: ("samples",), dict.fromkeys(range(TASKS), 1.0))
    everybody, driver, began = cpu_seconds(), time.process_time(), time.perf_counter()
    for outcome in engine.run([Task("train", i, round, {"w": w}) for i in range(TASKS)]):
        assert outcome.reply is not None
        collector.add(outcome.client_id, outcome.reply)
    seconds, of_driver = time.perf_counter() - began, time.process_time() - driver
    assert abs(float(collector.finish()[0].mean("w")[0]) - round - 1) < 1e-3
    taken = {
        "milliseconds": seconds,
        "cpu_milliseconds": cpu_seconds() - everybody,
        "driver_cpu_milliseconds": of_driver,
    }
    return {name: 1000 * one / TASKS for name, one in taken.items()}


def cpu_seconds() -> float:
    """Return the processor seconds of all processes that this one sees, which are those of the measurement."""
    total = 0.0
    for process in psutil.process_iter():
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system
    return total


def _rounded(value: float) -> float:
    return round(value, 2)


if __name__ == "__main__":
    main()
