"""Speed side by side: Motet, the loop a script has, the practical limit, Flower's simulation, pfl-research, FedJAX.

    python benchmarks/throughput.py                               # everything, about half an hour
    python benchmarks/throughput.py --workload twonn --quick      # one workload in under three minutes
    python benchmarks/throughput.py --workload dbe-cnn --contestants pool limit --repeats 9 --json

Every contestant is a process of its own that loads the same data, deals it the same way and starts from the same
weights. Then, after two rounds that do not count, the referee says "go" to one at a time, in an order that rotates; it
does one round (training, averaging and, where the workload scores, scoring; Motet also writes its record and its
checkpoint) and answers with the seconds by its own clock. Start-up is not counted, frameworks with processes of
their own are stopped while others are timed, and the figures are medians. Who cannot run here is named with the reason.

Flower and pfl-research want other versions of common libraries than Motet's constraints.txt, so they have their own:

    pip install -c benchmarks/constraints.txt -e .[bench]

FedJAX has an environment of its own, which is made when asked for:

    python benchmarks/throughput.py --prepare fedjax
"""

import argparse
import importlib.metadata
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

from throughput_parts import fedjax_bridge, sides, systems
from throughput_parts.contestants import CONTESTANTS
from throughput_parts.report import show
from throughput_parts.workloads import WORKLOADS

from motet.errors import MotetError, unknown
from motet.runs.environment import cpu_has_bf16, environment, machine_of

HERE = Path(__file__).parent
ALL = (*WORKLOADS, systems.NAME)
REPEATS = 5
LIBRARIES = ("flwr", "ray", "pfl")


class Parser(argparse.ArgumentParser):
    """A mistake is one sentence."""

    def error(self, message: str) -> NoReturn:
        """Instead of a page of usage."""
        raise MotetError(message)


def main(words: list[str]) -> None:
    """Measure what was asked for, one workload after the other."""
    options = read(words)
    if options.prepare:
        print(f"made {fedjax_bridge.prepare()}")
        return
    for name in options.workload or ALL:
        result = {"workload": name} | metric(name, options) | surroundings(words)
        text = json.dumps(result)
        if options.json:
            print(text, flush=True)
        else:
            show(result)
        if options.record is not None:
            path = HERE / "results" / f"throughput-{'-'.join(filter(None, [name, options.record]))}.json"
            path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read(words: list[str]) -> argparse.Namespace:
    """The options, or a sentence that says what is wrong with them."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", action="append", metavar="NAME", help=f"one of {', '.join(ALL)}; repeatable")
    parser.add_argument("--quick", action="store_true", help="smaller rounds, fewer contestants")
    parser.add_argument("--repeats", type=int, default=REPEATS, metavar="N", help=f"counted rounds (default {REPEATS})")
    parser.add_argument("--contestants", nargs="+", metavar="NAME", help=f"some of {', '.join(CONTESTANTS)}")
    parser.add_argument("--json", action="store_true", help="one JSON object per line and workload")
    parser.add_argument(
        "--record", nargs="?", const="", metavar="TAG", help="write results/throughput-NAME[-TAG].json too"
    )
    parser.add_argument("--prepare", choices=["fedjax"], help="download its environment, and measure nothing")
    options = parser.parse_args(words)
    for name in options.workload or ():
        if name not in ALL:
            raise unknown("workload", name, ALL)
    for name in options.contestants or ():
        if name not in CONTESTANTS:
            raise unknown("contestant", name, CONTESTANTS)
    if options.contestants and systems.NAME in (options.workload or ()):
        raise MotetError("--contestants is given with --workload systems; accepted: another workload")
    if options.repeats < 1:
        raise MotetError(f"--repeats is {options.repeats}; accepted: 1 or more")
    return options


def metric(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """The figures of one workload."""
    load = round(os.getloadavg()[0], 2)  # other work on this machine falsifies everything below
    if name == systems.NAME:
        found = {"what": systems.WHAT} | systems.metric(options.quick, options.repeats)
    else:
        asked = options.contestants or list(CONTESTANTS)
        left_out = too_slow_for_quick() if options.quick and not options.contestants else {}
        left_out |= {other: why for other, why in elsewhere(name).items() if other in asked}
        chosen = [contestant for contestant in asked if contestant not in left_out]
        found = sides.metric(WORKLOADS[name], chosen, options.quick, options.repeats)
        found["skipped"] |= left_out
    return found | {"load_before": load}


def elsewhere(workload: str) -> dict[str, str]:
    """Who plays other workloads alone."""
    others = {name: c.plays for name, c in CONTESTANTS.items() if c.plays and workload not in c.plays}
    return {name: f"plays {', '.join(plays)} alone" for name, plays in others.items()}


def too_slow_for_quick() -> dict[str, str]:
    """Who is left out so that --quick is quick, unless asked for by name, and why."""
    left_out = {name: "not in --quick" for name in ("limit_fused", "flower_default")}
    if not cpu_has_bf16():
        left_out["pool_bf16"] = "not in --quick on a CPU that emulates bfloat16"
    return left_out


def surroundings(words: list[str]) -> dict[str, Any]:
    """Where, from which source and how it was measured."""
    here = environment()
    machine = machine_of(here) | {"python": here.python}
    return {
        "machine": machine | {name: version(name) for name in LIBRARIES},
        "commit": here.git_commit,
        "command": " ".join(["python benchmarks/throughput.py", *words]),
    }


def version(library: str) -> str | None:
    """Of an installed library."""
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return None


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that contestants are ended too
    try:
        main(sys.argv[1:])
    except MotetError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
