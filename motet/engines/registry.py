"""Engines by name, or by import for a user's own; each is a function that takes a request and returns an engine."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from motet.config.sections import EngineSettings
from motet.engines.elsewhere import FLOWER
from motet.engines.engine import Engine, Groups, Work
from motet.engines.inline import Inline
from motet.engines.pool import Pool
from motet.errors import MotetError, unknown
from motet.io.plugins import is_import, load_object


@dataclass(frozen=True)
class EngineRequest:
    """Everything an engine is built from. A user's own engine is a class or a function that takes one of these."""

    settings: EngineSettings
    device: str
    work: Work  # performs tasks in this process
    build: Callable[[], Work]  # returns the same work object in another process; can be pickled
    samples: Mapping[int, int]  # training samples by client, which estimate how long its tasks take
    groups: Groups  # splits tasks into groups that are computed together
    folder: Path | None  # where private states of checkpoints are kept; None: in memory

    @property
    def workers(self) -> int:
        """How many workers to use: as many as asked for, or one per core."""
        return self.settings.workers or cores()


def inline(request: EngineRequest) -> Engine:
    """Return the engine that works in this process."""
    return Inline(request.work, request.folder, request.groups)


def pool(request: EngineRequest) -> Engine:
    """Return an engine of worker processes on this machine, which start at once; raise where the system has none."""
    if not has_workers():
        raise MotetError(
            "engine.name is 'pool', but its workers share memory in a way that this system does not have; accepted: "
            "engine.name=inline, here, or Linux and macOS"
        )
    return Pool(request.build, request.workers, request.samples, groups=request.groups, folder=request.folder)


def ray(request: EngineRequest) -> Engine:
    """Return an engine of actors in a Ray cluster, which is started on this machine where no address is given."""
    from motet.engines.ray import Ray  # imported here: Ray is an extra

    settings = request.settings
    gpus = settings.gpus or (1.0 if request.device.startswith("cuda") else 0.0)
    return Ray(
        request.build,
        settings.workers,
        request.samples,
        groups=request.groups,
        folder=request.folder,
        address=settings.ray_address,
        states=settings.states,
        gpus=gpus,
    )


def auto(request: EngineRequest) -> Engine:
    """Return a pool that starts workers only for longer runs, or the inline engine where workers would not help."""
    if request.workers == 1 or request.device != "cpu" or not has_workers():
        return inline(request)
    return Pool(
        request.build, request.workers, request.samples, request.work, groups=request.groups, folder=request.folder
    )


def flower(request: EngineRequest) -> Engine:
    """Raise a `MotetError`: real sites are reached by a command of their own, which has no data."""
    raise MotetError(
        "engine.name is 'flower', whose clients are real sites with their own data; accepted: `motet serve` with this "
        "experiment and `motet join` at each site, or another engine for a simulation"
    )


ENGINES: dict[str, Callable[[EngineRequest], Engine]] = {
    "auto": auto,
    "inline": inline,
    "pool": pool,
    "ray": ray,
    FLOWER: flower,
}


def build_engine(request: EngineRequest) -> Engine:
    """Return the engine that the settings name; raise `MotetError` if what they name makes none."""
    engine = factory_of(request.settings.name)(request)
    if not isinstance(engine, Engine):
        raise MotetError(
            f"engine.name is {request.settings.name!r}, which makes a {type(engine).__name__}; accepted: an Engine"
        )
    return engine


def factory_of(name: str) -> Callable[[EngineRequest], Engine]:
    """Return the function that makes the engine of a name or import (`module:Name`); raise for an unknown name."""
    if name in ENGINES:
        return ENGINES[name]
    if not is_import(name):
        raise unknown("engine (engine.name)", name, [*ENGINES, "module:Name", "path/file.py:Name"])
    found = load_object(name, "engine")
    if not callable(found):
        raise MotetError(f"engine.name is {name!r}, a {type(found).__name__}; accepted: a class of Engine")
    return found


def has_workers() -> bool:
    """Return whether this system can pass file descriptors to another process, which the pool needs."""
    return os.name == "posix"


def cores() -> int:
    """Return the number of processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
