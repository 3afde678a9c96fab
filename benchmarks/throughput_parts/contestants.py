"""Who takes part, and how each is started."""

import os
import sys
from dataclasses import dataclass, field
from typing import Any

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
PYTHON = (sys.executable, "-m")
TORCHRUN = (
    *(*PYTHON, "torch.distributed.run", "--standalone", "--local-addr=localhost"),
    *(f"--nproc-per-node={CORES}", "-m"),
)
# A machine of its own for frameworks that open ports and start processes: no network but loopback, and every process
# in it ends with the first one, which ends with the referee, even where it is stopped.
ALONE = (
    *("setpriv", "--pdeathsig", "KILL"),
    *("unshare", "--map-root-user", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"),
    *("sh", "-c", 'ip link set lo up && exec "$@"', "sh"),
)
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "FLWR_TELEMETRY_ENABLED": "0"}


@dataclass(frozen=True)
class Contestant:
    """One way to do the work: `play` of a module, in a process of its own."""

    name: str
    what: str
    module: str
    options: dict[str, Any] = field(default_factory=dict)
    command: tuple[str, ...] = PYTHON
    environment: dict[str, str] = field(default_factory=dict)
    plays: tuple[str, ...] = ()  # workloads; none: every one

    @property
    def restless(self) -> bool:
        """Whether it has processes that work between its turns, and must be stopped while others are timed."""
        return self.command[: len(ALONE)] == ALONE


CONTESTANTS = {
    contestant.name: contestant
    for contestant in (
        Contestant("inline", "Motet, one process with one thread", "motet_runs", {"engine": "inline"}),
        Contestant("pool", "Motet, a worker process per core", "motet_runs", {"engine": "pool"}),
        Contestant("pool_bf16", "the same in bfloat16", "motet_runs", {"engine": "pool", "precision": "bf16"}),
        Contestant(
            "ray",
            "Motet, an actor per core of a Ray that it starts here",
            "motet_runs",
            {"engine": "ray"},
            command=(*ALONE, *PYTHON),
            environment=QUIET,
        ),
        Contestant("bare", "PyTorch loop, one process with torch's default threads", "bare"),
        Contestant("limit", "the bare loop in a single-thread process per core", "limit"),
        Contestant("limit_fused", "the same with torch.optim.SGD(fused=True)", "limit", {"fused": True}),
        Contestant(
            "flower",
            "Flower's simulation, the bare loop in a Ray actor per core",
            "flower",
            command=(*ALONE, *PYTHON),
            environment=QUIET,
        ),
        Contestant(
            "flower_default",
            "the same as tutorials have it: Flower's default resources, a new net and DataLoader each time",
            "flower",
            {"as_it_comes": True},
            command=(*ALONE, *PYTHON),
            environment=QUIET,
        ),
        Contestant(
            "pfl",
            "pfl-research, a single-thread process per core",
            "pfl_research",
            command=(*ALONE, *TORCHRUN),
            environment={"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
        ),
        Contestant("fedjax", "FedJAX, one process with XLA's threads", "fedjax_bridge", plays=("twonn",)),
    )
}
