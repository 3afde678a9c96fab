"""The data sets Motet knows by name, each in a file with its entry, and the door to the user's own."""

import os
from pathlib import Path

from motet.data.own import kind_of_own, load_own
from motet.data.raw import KindOrAuto, RawData, default_net_for
from motet.data.sources import digits, digits_domains, fashion, mnist
from motet.data.sources.source import Source
from motet.errors import MotetError, unknown
from motet.inspect_files import user_path
from motet.plugins import is_import, load_object

__all__ = ["SOURCES", "Source", "default_net", "describe_sources", "load"]

_MODULES = (digits, digits_domains, fashion, mnist)
SOURCES: dict[str, Source] = {module.ENTRY.name: module.ENTRY for module in _MODULES}


def load(name: str, download: bool = False, kind: KindOrAuto = "auto") -> RawData:
    """The data of a registered name, of an .npz file or a folder of such, or of a user's source by import."""
    source = _source(name)
    if source is None:
        return load_own(_path(name), kind)
    raw = source.load(download)
    if not isinstance(raw, RawData):
        raise MotetError(f"data {name!r} returned {type(raw).__name__}; accepted: RawData, such as from_arrays makes")
    if kind not in ("auto", raw.kind):
        raise MotetError(f"data.kind is {kind!r}, but data {name!r} says itself that it is {raw.kind}; accepted: auto")
    return raw


def default_net(name: str, kind: KindOrAuto = "auto", download: bool = False) -> str:
    """The network a data set gets when the user names none; of the user's own file only the header is read."""
    source = _source(name)
    net = source.net if source else default_net_for(kind_of_own(_path(name), kind))
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
    path = user_path(name, "data")
    if path.suffix == ".npz" or os.sep in name or path.exists():
        return path
    raise unknown("data", name, [*SOURCES, "FILE.npz", "FOLDER/", "FILE.py:source"])
