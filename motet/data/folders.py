"""Where data may lie on this machine."""

import os
from pathlib import Path

from motet.inspect_files import user_path


def data_folder() -> Path | None:
    """The folder the user names in MOTET_DATA, if any."""
    named = os.environ.get("MOTET_DATA")
    return user_path(named, "MOTET_DATA") if named else None


def cache_folder() -> Path:
    """Where downloads are kept."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "motet"
