"""Run a command in a network namespace of its own with loopback alone: no port of Ray can be reached from outside."""

import importlib.util
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
UP = 'ip link set lo up && exec "$@"'


@cache
def why_not(package: str = "ray", extra: str = "ray") -> str | None:
    """Return why a package that opens ports cannot be tested here, or None."""
    if importlib.util.find_spec(package) is None:
        return f"{package} is not installed (pip install 'motet[{extra}]')"
    if not (shutil.which("unshare") and shutil.which("ip")):
        return "there is no unshare or ip, which make a network namespace"
    if subprocess.run(inside(["true"]), capture_output=True).returncode:
        return "this user may not make a network namespace (unshare)"
    return None


def inside(words: list[str]) -> list[str]:
    """Return the command that runs these words in a namespace with loopback alone."""
    as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", *as_root, "--net", "sh", "-c", UP, "sh", *words]


def pytest_inside(file: str, *options: str, timeout: float = 600) -> None:
    """Run a file of tests in a namespace; its report is the error if one fails."""
    paths = os.pathsep.join([str(HERE), *filter(None, sys.path)])  # workers import helpers of tests
    done = subprocess.run(
        inside([sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(HERE / file), *options]),
        capture_output=True,
        text=True,
        timeout=timeout,
        cwd=HERE.parent,
        env=os.environ | {"PYTHONPATH": paths},
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout, done.stdout[-2000:]
