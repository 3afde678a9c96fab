"""Machines with addresses of their own for tests: network namespaces on one bridge, which no other network reaches."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

HUB = "hub0"  # the bridge


@dataclass
class Machine:
    """A network namespace with one address, and a folder in which its commands run."""

    name: str
    address: str
    folder: Path
    holder: int  # process id of what holds the namespace
    cable: str  # the end of its cable at the bridge
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def inside(self, words: Sequence[str]) -> list[str]:
        """Return a command that runs in this namespace."""
        return ["nsenter", f"--net=/proc/{self.holder}/ns/net", *words]

    def call(self, *words: str) -> str:
        """Run a command in this namespace and return what it prints; a failure is an error with its words."""
        done = subprocess.run(self.inside(words), cwd=self.folder, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, f"{self.name}: {' '.join(words)}: {done.stderr}"
        return done.stdout

    def motet(self, *words: str) -> str:
        return self.call(sys.executable, "-m", "motet", *words)

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start `motet` with these words; what it says goes to `log` in the folder."""
        with open(self.folder / "log", "ab") as log:
            command = self.inside([sys.executable, "-m", "motet", *words])
            process = subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.running.append(process)
        return process

    @property
    def log(self) -> str:
        path = self.folder / "log"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def listeners(self) -> set[str]:
        """Return the addresses and ports on which something listens in this namespace."""
        return {line.split()[3] for line in self.call("ss", "--tcp", "--listening", "--numeric").splitlines()[1:]}

    def plug(self, state: str) -> None:
        """Pull the cable (`down`) or put it back (`up`)."""
        subprocess.run(["ip", "link", "set", self.cable, state], check=True)


@contextmanager
def machines(folder: Path, addresses: Mapping[str, str]) -> Iterator[dict[str, Machine]]:
    """Yield machines by name, in a namespace that is already cut off from every other network."""
    subprocess.run(["ip", "link", "add", "name", HUB, "type", "bridge"], check=True)
    subprocess.run(["ip", "link", "set", HUB, "up"], check=True)
    holders = list[subprocess.Popen[bytes]]()
    found = dict[str, Machine]()
    try:
        for number, (name, address) in enumerate(addresses.items()):
            holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
            holders.append(holder)
            wait_for_namespace(holder.pid)
            (folder / name).mkdir()
            machine = Machine(name, address, folder / name, holder.pid, f"cable{number}")
            ends = ["name", machine.cable, "type", "veth", "peer", "name", "eth0", "netns", str(holder.pid)]
            subprocess.run(["ip", "link", "add", *ends], check=True)
            subprocess.run(["ip", "link", "set", machine.cable, "master", HUB, "up"], check=True)
            machine.call("ip", "address", "add", f"{address}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                machine.call("ip", "link", "set", device, "up")
            found[name] = machine
        yield found
    finally:
        for machine in found.values():
            for process in machine.running:
                process.kill()
                process.wait()
        for holder in holders:
            holder.kill()
            holder.wait()
        subprocess.run(["ip", "link", "delete", HUB], check=True)


def wait_for_namespace(pid: int) -> None:
    """Wait until a process is in a namespace of its own."""
    for _ in range(500):
        if os.readlink(f"/proc/{pid}/ns/net") != os.readlink("/proc/self/ns/net"):
            return
        time.sleep(0.01)
    raise AssertionError("no namespace after 5 s")
