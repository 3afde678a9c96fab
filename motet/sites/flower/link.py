"""The SuperLink as an application without a socket; `motet/sites/superlink.py` gives it its sockets."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

VERSION = "1.41.0"
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
}
"""Nothing is told to anybody outside, and nothing is installed."""
ONE_HEAP = {"MALLOC_ARENA_MAX": "1"}
"""Forty threads that each take a part of a message would each keep its memory."""
OPEN = tuple(
    f"/v1/fleet/{name}"
    for name in (
        *("activate-node", "deactivate-node", "send-node-heartbeat", "pull-messages", "push-messages"),
        *("pull-object", "push-object", "confirm-message-received"),
    )
)
"""The paths of the SuperLink that sites may reach; all others answer on loopback alone."""


def environment(home: Path) -> dict[str, str]:
    """Return the environment of a process of Flower's: silent, with its files in one folder."""
    return os.environ | QUIET | ONE_HEAP | {"FLWR_HOME": str(home)}


def use_little_memory() -> None:
    """Let each of SQLite's many connections keep 2 MB of pages instead of 64, and map no file into memory.

    Tensors pass through the database once: nobody reads a page twice.
    """
    from flwr.supercore import sql_mixin

    changed = {"cache_size": "-2000", "mmap_size": "0"}
    sql_mixin.SQLITE_PRAGMAS = tuple((name, changed.get(name, value)) for name, value in sql_mixin.SQLITE_PRAGMAS)


def superlink_app(words: Sequence[str]) -> Any:
    """Return the SuperLink as an ASGI application, with the options of Flower's own command."""
    from flwr.superlink.cli.flower_superlink import SuperLinkLifespan, _parse_superlink_lifespan_config
    from flwr.superlink.main import create_app

    use_little_memory()
    before, sys.argv = sys.argv, ["flower-superlink", *words]
    try:
        config = _parse_superlink_lifespan_config()
    finally:
        sys.argv = before
    return create_app(config, SuperLinkLifespan)
