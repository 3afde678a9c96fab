"""Federations that are read, dealt and prepared once where many runs of one process share them.

A study runs hundreds of experiments on the same data. Inside `built_once()`, `build` returns the federation that it
returned before, as long as the settings, the seed and the files are the same. A federation is never changed after it
is built, so that runs can share it.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from motet.config.data_section import DataSettings
from motet.data.federation import Federation, Samples
from motet.io.user_paths import user_path

MOST_KEPT = 4
"""Federations of one study: a bench has several."""
MOST_BYTES = 2**30
"""Of all that are kept, besides the one that was used last."""

Key = tuple[object, ...]
_kept: dict[Key, Federation] | None = None  # the one that was used last is the last; None: nothing is shared


@contextmanager
def built_once() -> Iterator[None]:
    """Share federations between the runs of this process until the block ends."""
    global _kept
    before = _kept
    _kept = {} if before is None else before
    try:
        yield
    finally:
        _kept = before


def kept_or_built(
    settings: DataSettings,
    seed: int,
    files_of: Callable[[DataSettings], list[Path]],
    build: Callable[[DataSettings, int], Federation],
) -> Federation:
    """Return the federation of these settings that is kept, or build it; `files_of` says what it is read from."""
    if _kept is None:
        return build(settings, seed)
    files = files_of(settings)
    if settings.table_schema is not None:
        files = [*files, user_path(settings.table_schema, "schema")]
    key = (settings.model_dump_json(), seed, *map(_identity, files))
    found = _kept.pop(key, None)
    if found is None:
        found = build(settings, seed)
    _kept[key] = found
    _forget_the_oldest(_kept)
    return found


def _forget_the_oldest(kept: dict[Key, Federation]) -> None:
    while len(kept) > 1 and (len(kept) > MOST_KEPT or sum(map(_bytes, kept.values())) > MOST_BYTES):
        del kept[next(iter(kept))]


def _bytes(federation: Federation) -> int:
    return sum(map(_bytes_of, (federation.stored, federation.test)))


def _bytes_of(samples: Samples) -> int:
    return samples.x.nbytes + samples.y.nbytes


def _identity(path: Path) -> Key:
    """Return what changes when a file does, or any file of a folder."""
    inside = sorted(Path(at) / name for at, _, names in os.walk(path) for name in names)
    return tuple((str(each), *_stat(each)) for each in (path, *inside))


def _stat(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:
        return ()  # the reader has a sentence about it
    return found.st_ino, found.st_size, found.st_mtime_ns
