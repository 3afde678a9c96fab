"""What a checkpoint's manifest may say. It is checked key by key, whatever its checksum: a folder may be anybody's."""

import re
from dataclasses import dataclass
from typing import Any

from motet.entries import Damaged, Entries, Entry, checked

FORMAT = 1
MOST_BYTES = 2**30  # a manifest takes less than 200 bytes per client
SERVER_FILE = re.compile(r"server-[0-9]{6,12}\.safetensors")

_CLIENT = re.compile(r"client/(-1|0|[1-9][0-9]{0,11})")  # the pooled client is number -1
_ANY_NAME = re.compile(r"[^/\\\x00-\x1f]{1,200}")  # a client's file is its engine's, which checks the name again
_FINGERPRINT = re.compile(r"([0-9]{1,9}:)?[0-9a-z]{1,64}")
_LINES = re.compile(r"[a-z]{1,40}\.jsonl")
_KEYS = {"format", "round", "fingerprint", "data_hash", "files", "lengths", "extra"}


@dataclass(frozen=True)
class Manifest:
    """One checkpoint: where the run stood, and the files that hold it."""

    round: int
    fingerprint: str
    data_hash: str
    server: Entry
    clients: Entries
    lengths: dict[str, int]
    extra: dict[str, Any]


def checked_manifest(found: dict[str, Any], round: int, name: str) -> Manifest:
    """The manifest of that round, or `Damaged` with the first thing in it that Motet does not write."""

    def refuse(key: str) -> Damaged:
        return Damaged(f"{name} has a wrong {key!r}")

    if found.keys() != _KEYS:
        raise refuse(next(iter(sorted(found.keys() ^ _KEYS)))[:40])
    if type(found["format"]) is not int or found["format"] != FORMAT:
        raise refuse("format")
    if type(found["round"]) is not int or found["round"] != round:
        raise refuse("round")
    for key, pattern in (("fingerprint", _FINGERPRINT), ("data_hash", _FINGERPRINT)):
        if not isinstance(found[key], str) or not pattern.fullmatch(found[key]):
            raise refuse(key)
    files, lengths, extra = found["files"], found["lengths"], found["extra"]
    if not isinstance(files, dict) or "server" not in files:
        raise refuse("files")
    if not isinstance(lengths, dict) or not all(_LINES.fullmatch(k) and _is_count(v) for k, v in lengths.items()):
        raise refuse("lengths")
    if not isinstance(extra, dict):
        raise refuse("extra")
    clients: Entries = {}
    for role, entry in files.items():
        if role != "server":
            number = _CLIENT.fullmatch(role)
            if number is None:
                raise refuse("files")
            clients[int(number[1])] = checked(entry, _ANY_NAME, f"client {number[1]} in {name}")
    server = checked(files["server"], SERVER_FILE, f"the server in {name}")
    return Manifest(round, found["fingerprint"], found["data_hash"], server, clients, lengths, extra)


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0
