"""fedjax: Google's FedJAX on the same work, in an environment of its own, without torch and without Motet.

Its last release is of 2022 and wants no version of anything that we use. So the work is written to files here, and a
program of that environment (`fedjax_rounds.py`) plays. `python benchmarks/throughput.py --prepare fedjax` makes the
environment once, in the user's cache folder, by fedjax-constraints.txt.
"""

import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import numpy as np
import torch

from throughput_parts.turns import Turns, Unable
from throughput_parts.work import Work
from throughput_parts.workloads import Values

CONSTRAINTS = Path(__file__).parent.parent / "fedjax-constraints.txt"
PREPARED_ROUNDS = 40  # whose batches are written down; a contest has fewer


def environment() -> Path:
    """Where it is, or would be."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "motet" / "fedjax-environment"


def prepare() -> Path:
    """Make the environment."""
    folder = environment()
    venv.create(folder, with_pip=True, clear=True)
    command = [folder / "bin" / "python", "-m", "pip", "install", "-c", CONSTRAINTS, "fedjax", "jax"]
    subprocess.run(command, check=True, stdout=sys.stderr)
    return folder


def play(values: Values, turns: Turns) -> None:
    """Write the work down, and let the other environment do it."""
    python = environment() / "bin" / "python"
    if not python.exists():
        raise Unable("its environment is not there; make it by: python benchmarks/throughput.py --prepare fedjax")
    with tempfile.TemporaryDirectory() as folder:
        write_down(Work.of(values), Path(folder), PREPARED_ROUNDS)
        turns.handed_to([str(python), "-m", "throughput_parts.fedjax_rounds", folder])


def write_down(work: Work, folder: Path, rounds: int) -> None:
    """Data, first weights, and of every round its cohort, its learning rate and the rows of each epoch."""
    local = work.experiment.local
    np.save(folder / "x.npy", torch.cat([x.flatten(1) for x, _ in work.train]).numpy())
    np.save(folder / "y.npy", torch.cat([y for _, y in work.train]).numpy().astype(np.int32))
    weights = [p.detach().numpy() for p in work.net().parameters()]
    np.savez(folder / "weights.npz", *weights)
    starts = np.cumsum([0, *(len(y) for _, y in work.train)])
    told, orders = [], []
    for round in range(1, rounds + 1):
        cohort = work.cohort(round)
        told.append({"cohort": cohort, "lr": local.at_round(round)})
        for client in cohort:
            rng, n = work.order(round, client), len(work.train[client][1])
            orders += [torch.randperm(n, generator=rng) for _ in range(local.epochs)]
    np.save(folder / "orders.npy", torch.cat(orders).numpy().astype(np.int32))
    settings = {name: getattr(local, name) for name in ("epochs", "batch", "momentum", "weight_decay", "drop_last")}
    (folder / "work.json").write_text(json.dumps({"rounds": told, "starts": starts.tolist(), **settings}))
