"""Every module imports on a system that is not POSIX; and what such a system lacks has another way, or a sentence."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from motet.io import files

PACKAGE = Path(__file__).parents[1] / "motet"
SYSTEM = """
import importlib, os, signal, sys, types
import filelock, numpy, optuna, platformdirs, psutil, pyarrow.parquet, pydantic, scipy.stats, tomli_w, torch
import sklearn.linear_model
import torch.multiprocessing, multiprocessing.resource_tracker, multiprocessing.shared_memory, torch.utils.data, typer
import sklearn.ensemble, sklearn.preprocessing, jinja2, safetensors.torch, PIL.Image, rich.live, subprocess, tempfile

kept = types.SimpleNamespace(**vars(os))
for module in [module for name, module in sys.modules.items() if name.startswith("filelock.")]:
    module.os = kept  # on a real Windows it has another way
for module in ("fcntl", "resource", "pwd", "grp", "termios", "_posixsubprocess", "_posixshmem"):
    sys.modules[module] = None  # `import fcntl` raises ImportError
for name in (
    "sysconf", "sysconf_names", "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_DIRECTORY", "register_at_fork", "fork",
    "getuid", "geteuid", "getgid", "uname", "sched_getaffinity", "sched_setaffinity", "statvfs", "getloadavg", "nice",
    "killpg", "setsid", "mkfifo", "fchmod", "lchown", "pread", "memfd_create",
):
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGHUP", "SIGKILL", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGCHLD", "SIGPIPE", "pthread_sigmask", "alarm"):
    if hasattr(signal, name):
        delattr(signal, name)
"""
"""A fake Windows: the libraries are loaded first, then all that they have of POSIX is taken away."""
IMPORTS = """
failed = []
for module in sys.argv[1:]:
    try:
        importlib.import_module(module)
    except Exception as error:
        failed.append(f"{module}: {type(error).__name__}: {error}")
sys.exit("\\n".join(failed) or 0)
"""
OPTIONAL = {"motet.__main__"}  # it runs the command


def module_of(path: Path) -> str:
    parts = ("motet", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.mark.slow
def test_every_module_imports_without_posix() -> None:
    modules = sorted({module_of(path) for path in PACKAGE.rglob("*.py")} - OPTIONAL)
    assert len(modules) > 100
    done = subprocess.run(
        [sys.executable, "-c", SYSTEM + IMPORTS, *modules], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


def test_where_the_system_cannot_refuse_a_link_we_look_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_NO_LINK", 0)
    (tmp_path / "secret").write_text("of somebody else")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(files.NotOwn, match="it is a link"):
        files.read_own(tmp_path / "link")
    assert files.read_own(tmp_path / "secret") == b"of somebody else"


def test_a_system_without_sync_of_folders_writes_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_SYNCS_FOLDERS", False)
    monkeypatch.setattr(files, "_NEW", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    files.sync_folder(tmp_path / "nothing is opened here")
    files.write_atomic(tmp_path / "file", b"whole")
    assert (tmp_path / "file").read_bytes() == b"whole"


RUN = """
import motet

if __name__ == "__main__":
    tiny = dict(data="digits", subset=0.2, clients=3, rounds=2, epochs=1, method="fedrod")
    result = motet.run(**tiny, set={"engine.name": "inline"}, out="run")
    assert result.rounds[-1]["round"] == 2 and motet.resume("run").figures == result.figures
"""


@pytest.mark.slow
def test_a_run_in_one_process_needs_no_posix(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run(
        [sys.executable, "-c", SYSTEM + RUN], capture_output=True, text=True, timeout=300, cwd=tmp_path, env=env
    )
    assert done.returncode == 0, done.stderr
