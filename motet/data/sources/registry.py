"""The list of data sets by name, and how `data.name` is read: a listed name, a file or folder, or an import."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from motet.config.data_section import AUTO, IMAGE_FIELDS, DataSettings
from motet.data.readers import image_folder
from motet.data.readers.in_memory import is_in_memory, place_of
from motet.data.readers.npz import names_in
from motet.data.readers.raw import DRAWN, Preview, RawData, dealt_by, default_net_for
from motet.data.readers.registry import forms, is_own, load_own, preview_of_own
from motet.data.sources import (
    agnews,
    cifar,
    digits,
    domain_folders,
    emnist,
    femnist,
    gld23k,
    har,
    mnist,
    organamnist,
    shakespeare,
    tiny_imagenet,
)
from motet.data.sources.fetch import absent, check_fields, find, get, target_folder
from motet.data.sources.source import Source
from motet.errors import MotetError, shown, unknown
from motet.io.plugins import is_import, load_object
from motet.io.user_paths import user_path

_MODULES = (
    digits,
    mnist,
    emnist,
    femnist,
    cifar,
    tiny_imagenet,
    domain_folders,
    gld23k,
    organamnist,
    har,
    shakespeare,
    agnews,
)
SOURCES: dict[str, Source] = {entry.name: entry for module in _MODULES for entry in module.ENTRIES}


def load(data: DataSettings | str, **choices: Any) -> RawData:
    """The data of [data], or of a name and some more fields of [data].

    The name is a registered one, a file or folder of the user's, or a user's source by import.
    """
    settings = _settings(data, choices)
    source = _source(settings.name)
    if source is None:
        return _load_file(settings)
    _refuse_columns(settings)
    check_fields(settings, source.obeys, source.variants)
    raw = source.load(settings.download) if source.load else _load_known(source, settings)
    if not isinstance(raw, RawData):
        raise MotetError(
            f"data {settings.name!r} returned {type(raw).__name__}; accepted: RawData, such as from_arrays makes"
        )
    if settings.kind not in ("auto", raw.kind):
        raise MotetError(
            f"data.kind is {settings.kind!r}, but data {settings.name!r} says itself that it is {raw.kind}; "
            f"accepted: auto"
        )
    return raw


def default_net(data: DataSettings | str, **choices: Any) -> str:
    """The network a data set gets when the user names none; of the user's own file only the header is read."""
    settings = _settings(data, choices)
    source = _source(settings.name)
    net = source.net if source else _net_of_file(settings)
    if source and not net:  # a function says nothing of itself
        net = load(settings).net
    if not net:
        raise MotetError(
            f"net is 'auto', but data {settings.name!r} names none; accepted: a net of `motet list nets`, or "
            f"file.py:build"
        )
    return net


def default_partition(settings: DataSettings) -> str:
    """Return the partition of data where the user names none: to the clients that they name, if they name some."""
    if settings.partition != AUTO:
        return settings.partition
    source = _source(settings.name)
    return dealt_by(AUTO, _preview_of_file(settings).clients if source is None else _has_clients(source, settings))


def _has_clients(source: Source, settings: DataSettings) -> bool:
    """Return whether a data set names the client of each sample, by its files, or by loading what a function makes."""
    if source.load:
        return load(settings).client is not None
    found = find(source, settings.dir)
    if found is None:
        return any(form.clients for form in source.forms[:1])  # as it will be fetched
    return "client" in names_in(found.paths[0]) if found.form.clients is None else found.form.clients


def files_of(settings: DataSettings) -> list[Path]:
    """Return the files that the data are read from; none of data in memory, whose name has a hash of them."""
    source = _source(settings.name)
    if source is None:
        return [] if is_in_memory(settings.name) else [_path(settings.name)]
    found = None if source.load else find(source, settings.dir)
    return list(found.paths) if found else []


def describe_sources() -> list[dict[str, str]]:
    """One entry per data set, for `motet list data`."""
    return [
        {"name": s.name, "summary": s.summary, "paper": s.paper, "licence": s.licence, "net": s.net}
        for s in SOURCES.values()
    ]


def locate_sources(first: str = "") -> list[dict[str, str | bool]]:
    """Return the rows of `describe_sources` with where each data set is on this machine, for `motet data list`."""
    rows: list[dict[str, str | bool]] = []
    for source, row in zip(SOURCES.values(), describe_sources(), strict=True):
        found = find(source, first)
        here = str(found.place) if found else "scikit-learn" if source.load else ""
        rows.append({**row, "where": here, "can be fetched": bool(source.downloads)})
    return rows


def fetch_source(name: str, folder: str = "", say: Callable[[str], None] | None = None) -> list[Path]:
    """Fetch a data set by name, into that folder or else the cache: the paths of its files."""
    if name not in SOURCES:
        raise unknown("data", name, SOURCES)
    if SOURCES[name].load:
        raise MotetError(f"data {name!r} need not be fetched, they come with Motet; accepted: another name")
    return get(SOURCES[name], target_folder(folder), say)


def _settings(data: DataSettings | str, choices: dict[str, Any]) -> DataSettings:
    return data if isinstance(data, DataSettings) else DataSettings(name=data, **choices)


def _load_known(source: Source, settings: DataSettings) -> RawData:
    found = find(source, settings.dir)
    if found is None and settings.download and source.downloads:
        get(source, target_folder(settings.dir))
        found = find(source, settings.dir)
    if found is None:
        raise absent(source)
    raw = found.form.read(found.paths, settings)
    samples = f"{len(raw.y):,} samples"
    if source.samples and len(raw.y) != source.samples:
        samples += f" (the whole data set has {source.samples:,})"
    more = f" ({raw.origin})" if raw.origin else ""
    origin = f"{source.name}: {samples}{more} from {found.place}; licence: {source.licence}"
    return replace(raw, net=source.net, origin=origin)


def _load_file(settings: DataSettings) -> RawData:
    path = _path(settings.name)
    if image_folder.is_one(path):
        _refuse_columns(settings)
        check_fields(settings, (*IMAGE_FIELDS, "levels"))
        return replace(image_folder.load(path, settings), own=True)
    check_fields(settings, ())
    return _with_hint(replace(load_own(path, settings.kind, settings.columns), own=True), settings)


def _with_hint(raw: RawData, settings: DataSettings) -> RawData:
    """Return the data with a note where clients are simulated unasked, and the columns that may name real ones."""
    if raw.may_name_clients is None or (settings.partition not in (AUTO, DRAWN) and not raw.may_name_clients):
        return raw
    partition = dealt_by(settings.partition, False)
    note = f"nothing says whose row it is, so {settings.clients} clients are simulated by {partition}"
    if raw.may_name_clients:
        columns = ", ".join(map(shown, raw.may_name_clients))
        note += f"; --client COLUMN makes real ones, and {columns} may be such a column"
    return replace(raw, notes=(*raw.notes, note))


def _net_of_file(settings: DataSettings) -> str:
    found = _preview_of_file(settings)
    return default_net_for(found.kind, (settings.resize, settings.resize) if settings.resize else found.sides)


def _preview_of_file(settings: DataSettings) -> Preview:
    path = _path(settings.name)
    if image_folder.is_one(path):
        return image_folder.preview(path, settings)
    return preview_of_own(path, settings.kind, settings.columns)


def _refuse_columns(settings: DataSettings) -> None:
    for field, value in settings.columns.named.items():
        raise MotetError(
            f"{field} is {shown(value)}, but data {settings.name!r} has no columns; accepted: for a file of yours"
        )


def _source(name: str) -> Source | None:
    """The source of a registered name or of an import; None for what is a file or a folder."""
    if name in SOURCES:
        return SOURCES[name]
    if not is_import(name):
        return None
    found = load_object(name, "data")
    if isinstance(found, Source):
        return found
    if not callable(found):
        raise MotetError(
            f"data {name!r} is {type(found).__name__}; accepted: a function from download (true or false) to RawData, "
            f"or a Source"
        )
    return Source(name, summary="", paper="", licence="", net="", load=found)


def _path(name: str) -> Path:
    if is_in_memory(name):
        return place_of(name)
    path = user_path(name, "data")
    if is_own(path) or path.suffix == ".zip" or os.sep in name or path.exists():
        return path
    raise unknown("data", name, [*SOURCES, *forms(), "FILE.py:source"])
