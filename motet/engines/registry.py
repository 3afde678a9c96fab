"""Engines by name, and a user's own by import: each name is a function that makes an engine of a request."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from motet.config.sections import EngineSettings
from motet.engines.engine import Engine, Groups, Work
from motet.engines.inline import Inline
from motet.engines.pool import Pool
from motet.errors import MotetError, unknown
from motet.io.plugins import is_import, load_object


@dataclass(frozen=True)
class EngineRequest:
    """What an engine is made of. A user's own engine is a class, or a function, that takes one of these."""

    settings: EngineSettings
    device: str
    work: Work  # does tasks in this process
    build: Callable[[], Work]  # makes the same work in another process: a function that can be sent there
    samples: Mapping[int, int]  # training samples of each client, which tell who takes long
    groups: Groups  # which tasks are done as one
    folder: Path | None  # where private states are kept; None: in memory

    @property
    def workers(self) -> int:
        """How many workers to use: as many as asked for, or one per core."""
        return self.settings.workers or cores()


def inline(request: EngineRequest) -> Engine:
    """Return the engine that works in this process."""
    return Inline(request.work, request.folder, request.groups)


def pool(request: EngineRequest) -> Engine:
    """Return worker processes on this machine, which start at once."""
    if not has_workers():
        raise MotetError(
            "engine.name is 'pool', but its workers share memory in a way that this system does not have; accepted: "
            "engine.name=inline, here, or Linux and macOS"
        )
    return Pool(request.build, request.workers, request.samples, groups=request.groups, folder=request.folder)


def auto(request: EngineRequest) -> Engine:
    """Return a pool that starts no process for a run of seconds; one process where more would not work, or not help."""
    if request.workers == 1 or request.device != "cpu" or not has_workers():
        return inline(request)
    return Pool(
        request.build, request.workers, request.samples, request.work, groups=request.groups, folder=request.folder
    )


ENGINES: dict[str, Callable[[EngineRequest], Engine]] = {"auto": auto, "inline": inline, "pool": pool}


def build_engine(request: EngineRequest) -> Engine:
    """Return the engine that the settings name."""
    engine = factory_of(request.settings.name)(request)
    if not isinstance(engine, Engine):
        raise MotetError(
            f"engine.name is {request.settings.name!r}, which makes a {type(engine).__name__}; accepted: an Engine"
        )
    return engine


def factory_of(name: str) -> Callable[[EngineRequest], Engine]:
    """Return what makes the engine of that name, or by import `module:Name`; one sentence for any other name."""
    if name in ENGINES:
        return ENGINES[name]
    if not is_import(name):
        raise unknown("engine (engine.name)", name, [*ENGINES, "module:Name", "path/file.py:Name"])
    found = load_object(name, "engine")
    if not callable(found):
        raise MotetError(f"engine.name is {name!r}, a {type(found).__name__}; accepted: a class of Engine")
    return found


def has_workers() -> bool:
    """Return whether this system can hand descriptors of shared memory to another process, as the pool does."""
    return os.name == "posix"


def cores() -> int:
    """Return how many processes of this kind can compute at the same time."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
