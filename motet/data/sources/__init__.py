"""Data sets by name: one file each, which reads the official files and ends with the entry for `motet list data`.

`registry.py` lists them and decides what `data.name` means, `source.py` says what an entry holds, `fetch.py` finds
files on this machine or downloads them, checked by SHA-256. May import data.readers, config and io. Start reading in
`registry.py`, then `mnist.py`.
"""

from motet.data.sources.registry import (
    SOURCES,
    default_net,
    default_partition,
    describe_sources,
    fetch_source,
    load,
    locate_sources,
)
from motet.data.sources.source import Source

__all__ = [
    "SOURCES",
    "Source",
    "default_net",
    "default_partition",
    "describe_sources",
    "fetch_source",
    "load",
    "locate_sources",
]
