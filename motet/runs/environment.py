"""environment.json of a record: versions and kind of machine, without names of machine, user or folder."""

import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy
import torch
from pydantic import Field

from motet.io.json_models import Count, FileModel, Sha256, Text

_PACKAGE = Path(__file__).resolve().parent.parent


class Environment(FileModel):
    """The software and kind of machine that a run was computed with, which reproducing its numbers needs."""

    motet: Text
    git_commit: Text | None
    python: Text
    torch: Text
    numpy: Text
    platform: Text
    cpu: Text
    cpu_count: Count | None
    cpu_instructions: Text
    cpu_has_bf16: bool
    threads: Count
    code: dict[Text, Sha256] = Field(default_factory=dict)
    """The SHA-256 of each of the user's own files that the experiment names (`motet/runs/trust.py`)."""


def environment(code: Mapping[str, str] | None = None) -> Environment:
    """Return the environment of this process; `code` has the SHA-256 of the user's own files."""
    return Environment(
        motet=_motet_version(),
        git_commit=_git_commit(),
        python=platform.python_version(),
        torch=str(torch.__version__),
        numpy=numpy.__version__,
        platform=f"{platform.system()} {platform.machine()}",
        cpu=_cpu_model(),
        cpu_count=os.cpu_count(),
        cpu_instructions=torch.backends.cpu.get_cpu_capability(),
        cpu_has_bf16=cpu_has_bf16(),
        threads=torch.get_num_threads(),
        code=dict(code or {}),
    )


def machine_of(here: Environment) -> dict[str, Any]:
    """Return the kind of machine in an environment, as recorded results name it."""
    return {name: getattr(here, name) for name in ("platform", "cpu", "cpu_count", "cpu_instructions", "torch")}


def cpu_has_bf16() -> bool:
    """Return whether this processor computes bfloat16 in hardware; otherwise torch emulates it."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


@cache
def _motet_version() -> str:
    try:
        return importlib.metadata.version("motet")
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


@cache
def _git_commit() -> str | None:
    """Return the git commit of this source, marked if files differ from it; None for an installed package.

    It is asked once per process, whose code does not change: a study has hundreds of runs.
    """
    if _git("ls-files", "--error-unmatch", "__init__.py") is None:
        return None  # not under git, or inside a repository of something else
    commit = _git("rev-parse", "HEAD")
    return commit if commit is None or _git("diff", "--quiet", "HEAD", "--", ".") is not None else f"{commit}+changes"


def _git(*words: str) -> str | None:
    try:
        done = subprocess.run(["git", *words], cwd=_PACKAGE, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


@cache
def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
