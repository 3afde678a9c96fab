"""Real processes on loopback: a coordinator with its SuperLink, and sites, for tests and benchmarks."""

import csv
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from motet.config.experiment import Experiment, resolve
from motet.config.toml import dumps
from motet.data.schema import NumberColumn, Schema
from motet.runs.run import run
from motet.sites.certificates import make_certificates

NAMES = ("hospital-a", "hospital-b", "hospital-c")
LIMIT = 240.0


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def digits_tables(folder: Path, names: Sequence[str] = NAMES, rows: int = 600) -> tuple[Path, Path]:
    """Write scikit-learn's digits as one table with a column of sites, one table per site, and a schema; return the
    first and the last."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    columns = [f"p{i:02d}" for i in range(x.shape[1])]
    with open(folder / "all.csv", "w", newline="") as whole:
        writer = csv.writer(whole)
        writer.writerow(["site", *columns, "digit"])
        parts: dict[str, list[list[Any]]] = {name: [] for name in names}
        for i in range(rows):
            name = names[(int(y[i]) // 3 + (i % 4 == 0)) % len(names)]  # each site has other digits
            row = [*(int(v) for v in x[i]), f"d{y[i]}"]
            writer.writerow([name, *row])
            parts[name].append(row)
    for name, part in parts.items():
        with open(folder / f"{name}.csv", "w", newline="") as own:
            csv.writer(own).writerows([[*columns, "digit"], *part])
    scale = {name: NumberColumn(mean=float(x[:, i].mean()), deviation=6.0) for i, name in enumerate(columns)}
    schema = Schema("digit", tuple(f"d{c}" for c in range(10)), scale)
    (folder / "schema.toml").write_text(schema.to_toml())
    return folder / "all.csv", folder / "schema.toml"


def experiment_values(method: str, count: int = 3, **changes: Any) -> dict[str, Any]:
    """Return the choices of a small experiment; `local={...}` changes a section."""
    values: dict[str, Any] = {
        "method": method,
        "seed": 1,
        "data": {"name": "all.csv", "label": "digit", "test_share": 0.2, "val_share": 0.2},
        "net": {"name": "mlp(hidden=32)"},
        "rounds": {"count": count, "cohort": 0.7},
        "local": {"epochs": 1, "batch": 16, "lr": 0.05, "weight_decay": 1e-5, "batched_clients": False},
        "scoring": {"every": 2, "test": "split", "metric": "accuracy", "figures_learned": False},
        "engine": {"name": "inline"},
        "checkpoint": {"every": 1},
    }
    for name, value in changes.items():
        values[name] = {**values[name], **value} if isinstance(value, Mapping) else value
    return values


def simulated(values: Mapping[str, Any], whole: Path, schema: Path) -> Experiment:
    """Return the experiment of the same federation where all rows are in one table."""
    there = {"name": str(whole), "client": "site", "table_schema": str(schema)}
    return resolve({**values, "data": {**values["data"], **there}})


def begun(folder: Path, method: str, count: int = 3, **changes: Any) -> dict[str, Any]:
    """Write the tables of three sites, and run the simulation of the same federation into `inline`."""
    whole, schema = digits_tables(folder)
    values = experiment_values(method, count, **changes)
    run(simulated(values, whole, schema), folder / "inline")
    return values


@dataclass
class Processes:
    """A coordinator and sites in one folder; `log` of each is a file."""

    folder: Path
    values: Mapping[str, Any]
    names: Sequence[str] = NAMES
    schema: str = "schema.toml"
    port: int = field(default_factory=free_port)
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.certs, self.out = self.folder / "certs", self.folder / "run"
        if not self.certs.exists():
            make_certificates(self.certs, ["127.0.0.1", "localhost"], list(self.names))
        (self.folder / "experiment.toml").write_text(dumps(dict(self.values)))

    def log(self, name: str) -> str:
        path = self.folder / f"{name}.log"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def start(self, name: str, words: Sequence[str], before: Sequence[str] = (), **environment: str) -> None:
        with open(self.folder / f"{name}.log", "ab") as log:
            self.running[name] = subprocess.Popen(
                [*before, sys.executable, "-m", "motet", *map(str, words)],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | environment,
            )

    def start_script(self, name: str, script: Path, words: Sequence[str]) -> None:
        """Start a script with the words of a command, in place of `python -m motet`."""
        with open(self.folder / f"{name}.log", "ab") as log:
            command = [sys.executable, str(script), *words]
            self.running[name] = subprocess.Popen(
                command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def serve(self, *options: str) -> None:
        words = ["serve", "experiment.toml", "--address", f"127.0.0.1:{self.port}", "--certs", "certs"]
        self.start("coordinator", [*words, "--sites", ",".join(self.names), "--out", "run", *options])

    def serve_again(self) -> None:
        self.start("coordinator", ["serve", "--resume", "run"])

    def join(self, name: str, *options: str, **environment: str) -> None:
        words = ["join", f"127.0.0.1:{self.port}", "--certs", "certs", "--name", name, "--data", f"{name}.csv"]
        self.start(
            name, [*words, "--schema", self.schema, "--state", f"state-{name}", "--yes", *options], **environment
        )

    def join_all(self) -> None:
        for name in self.names:
            self.join(name)

    def superlink(self, limit: float = 60.0) -> int:
        """Return the process id of the coordinator's SuperLink, which may be about to start again."""
        end = time.monotonic() + limit
        while time.monotonic() < end:
            with suppress(psutil.Error):  # a child that ends while it is looked at
                for child in psutil.Process(self.running["coordinator"].pid).children():  # of all its threads
                    if "motet.sites.superlink" in child.cmdline() and child.status() != psutil.STATUS_ZOMBIE:
                        return child.pid
            time.sleep(0.1)
        raise AssertionError(f"the coordinator has no SuperLink: {self.logs()}")

    def kill(self, name: str) -> None:
        process = self.running.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def until(self, name: str, pattern: str, limit: float = LIMIT) -> str:
        """Wait until the log of a process matches, and return the match."""
        end = time.monotonic() + limit
        while time.monotonic() < end:
            if found := re.search(pattern, self.log(name)):
                return found[0]
            process = self.running.get(name)
            if process is not None and process.poll() is not None:
                time.sleep(0.2)
                if found := re.search(pattern, self.log(name)):
                    return found[0]
                raise AssertionError(f"{name} ended with {process.returncode}: {self.logs()}")
            time.sleep(0.03)
        raise AssertionError(f"no {pattern!r} of {name} in {limit} s: {self.logs()}")

    def rounds(self) -> int:
        path = self.out / "rounds.jsonl"
        return len(path.read_bytes().splitlines()) if path.exists() else 0

    def until_round(self, number: int, limit: float = LIMIT) -> None:
        end = time.monotonic() + limit
        while self.rounds() < number:
            if time.monotonic() > end or self.running["coordinator"].poll() is not None:
                raise AssertionError(f"no round {number}: {self.logs()}")
            time.sleep(0.02)

    def end(self, name: str, limit: float = LIMIT) -> int:
        """Wait until a process has ended, and return its code."""
        stop = time.monotonic() + limit
        while time.monotonic() < stop:
            if (code := self.running[name].poll()) is not None:
                return code
            if failed := {other: p.returncode for other, p in self.running.items() if p.poll()}:
                raise AssertionError(f"ended with a code that is not 0: {failed}: {self.logs()}")
            time.sleep(0.05)
        raise AssertionError(f"{name} does not end: {self.logs()}")

    def finished(self) -> None:
        """Wait until everybody has ended well."""
        assert self.end("coordinator") == 0, self.logs()
        for name in self.names:
            assert self.end(name, 60) == 0, self.logs()

    def logs(self, most: int = 2500) -> str:
        """Return the last words of every process, of the SuperLink too."""
        paths = [*sorted(self.folder.glob("*.log")), self.out / "superlink" / "superlink.log"]
        return "\n".join(f"--- {p.stem}\n{p.read_text(errors='replace')[-most:]}" for p in paths if p.exists())

    def stop(self) -> None:
        for process in self.running.values():
            if process.poll() is None:
                process.terminate()
        for process in self.running.values():
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def processes(folder: Path, values: Mapping[str, Any], **more: Any) -> Iterator[Processes]:
    """The processes of a run, which are ended in any case."""
    found = Processes(folder, values, **more)
    try:
        yield found
    finally:
        found.stop()


def states_at(processes: Processes) -> dict[str, set[str]]:
    """Return the hashes of the private states on each site's disk."""
    return {n: {p.stem for p in (processes.folder / f"state-{n}" / "states").iterdir()} for n in processes.names}


def assert_as_simulated(processes: Processes, inline: Path) -> None:
    """The record's last checkpoint, its weights, and the states on the sites' disks are those of the simulation."""
    import json

    def manifest(folder: Path) -> dict[str, Any]:
        return dict(json.loads(max((folder / "checkpoint").glob("0*.json")).read_bytes()))

    mine, theirs = manifest(processes.out), manifest(inline)
    assert mine["round"] == theirs["round"], f"after round {mine['round']}, not {theirs['round']}: {processes.logs()}"
    files = [{role: entry["sha256"] for role, entry in m["files"].items()} for m in (mine, theirs)]
    other = sorted(role for role in files[0].keys() | files[1].keys() if files[0].get(role) != files[1].get(role))
    assert not other, f"other bytes than the simulation's in {other}: {processes.logs()}"
    at_sites = states_at(processes)
    for role, sha256 in files[0].items():
        if role != "server":
            name = processes.names[int(role.partition("/")[2])]
            assert sha256 in at_sites[name], f"{name} has lost {sha256[:12]}, has {at_sites[name]}: {processes.logs()}"
    weights = "weights.safetensors"
    found = [p.read_bytes() if (p := folder / weights).exists() else b"" for folder in (inline, processes.out)]
    assert found[0] == found[1], f"{weights} is not the simulation's: {processes.logs()}"
