"""The folders of this machine in which data sets are looked for, and the cache for downloads."""

import os
import sys
from pathlib import Path

from platformdirs import user_cache_path

from motet.io.user_paths import user_path

ROOTS = (sys.prefix, sys.base_prefix, "/usr/local", "/usr")
"""The folders under which packages of the system put data sets."""


def data_folder() -> Path | None:
    """Return the folder that the user names in MOTET_DATA, or None."""
    named = os.environ.get("MOTET_DATA")
    return user_path(named, "MOTET_DATA") if named else None


def cache_folder() -> Path:
    """Return the folder where downloads are kept, and images as they were read.

    It is the system's place for caches: on Linux XDG_CACHE_HOME/motet, which is ~/.cache/motet if that is not set.
    """
    return user_cache_path("motet", appauthor=False)


def places(first: str = "") -> list[Path]:
    """Return where data sets are looked for: `first` (data.dir), MOTET_DATA, the cache, the system's packages."""
    named = [user_path(first, "data.dir")] if first else []
    own = data_folder()
    system = [Path(root) / "share" / "datasets" for root in dict.fromkeys(ROOTS)]
    return [*named, *([own] if own else []), cache_folder(), *system]
