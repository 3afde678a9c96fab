"""The data sets Motet knows by name, each in a file with its entry, and the door to the user's own."""

import os
from pathlib import Path

from motet.data.columns import Columns
from motet.data.own import forms, is_own, kind_of_own, load_own
from motet.data.own.memory import is_in_memory, place_of
from motet.data.raw import KindOrAuto, RawData, default_net_for
from motet.data.sources import digits, fashion, mnist
from motet.data.sources.source import Source
from motet.errors import MotetError, shown, unknown
from motet.inspect_files import user_path
from motet.plugins import is_import, load_object

__all__ = ["SOURCES", "Source", "default_net", "describe_sources", "load"]

_MODULES = (digits, fashion, mnist)
SOURCES: dict[str, Source] = {module.ENTRY.name: module.ENTRY for module in _MODULES}


def load(name: str, download: bool = False, kind: KindOrAuto = "auto", columns: Columns | None = None) -> RawData:
    """The data of a registered name, of a user's file or folder, or of a user's source by import."""
    source = _source(name)
    if source is None:
        return load_own(_path(name), kind, columns)
    if columns and columns.named:
        field, value = next(iter(columns.named.items()))
        raise MotetError(f"{field} is {shown(value)}, but data {name!r} has no columns; accepted: for a file of yours")
    raw = source.load(download)
    if not isinstance(raw, RawData):
        raise MotetError(f"data {name!r} returned {type(raw).__name__}; accepted: RawData, such as from_arrays makes")
    if kind not in ("auto", raw.kind):
        raise MotetError(f"data.kind is {kind!r}, but data {name!r} says itself that it is {raw.kind}; accepted: auto")
    return raw


def default_net(name: str, kind: KindOrAuto = "auto", download: bool = False, columns: Columns | None = None) -> str:
    """The network a data set gets when the user names none; of the user's own file only the header is read."""
    source = _source(name)
    net = source.net if source else default_net_for(kind_of_own(_path(name), kind, columns))
    if source and not net:  # a function says nothing of itself
        net = load(name, download).net
    if not net:
        raise MotetError(
            f"net is 'auto', but no net is known for the tokens of data {name!r}; accepted: a net of `motet list nets` "
            f"that takes tokens, or your own as file.py:build"
        )
    return net


def describe_sources() -> list[dict[str, str]]:
    """One entry per data set, for `motet list data`."""
    return [
        {"name": s.name, "summary": s.summary, "paper": s.paper, "licence": s.licence, "net": s.net}
        for s in SOURCES.values()
    ]


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
    if is_own(path) or os.sep in name or path.exists():
        return path
    raise unknown("data", name, [*SOURCES, *forms(), "FILE.py:source"])
