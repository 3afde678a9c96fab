"""Where data may lie on this machine."""

import os
import sys
from pathlib import Path

from motet.io.user_paths import user_path

ROOTS = (sys.prefix, sys.base_prefix, "/usr/local", "/usr")
"""Under which packages of the system put data sets."""


def data_folder() -> Path | None:
    """The folder the user names in MOTET_DATA, if any."""
    named = os.environ.get("MOTET_DATA")
    return user_path(named, "MOTET_DATA") if named else None


def cache_folder() -> Path:
    """Where downloads are kept, and images as they were read."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "motet"


def places(first: str = "") -> list[Path]:
    """The folders where data sets are looked for: `first` (data.dir), MOTET_DATA, the cache, the system's packages."""
    named = [user_path(first, "data.dir")] if first else []
    own = data_folder()
    system = [Path(root) / "share" / "datasets" for root in dict.fromkeys(ROOTS)]
    return [*named, *([own] if own else []), cache_folder(), *system]
