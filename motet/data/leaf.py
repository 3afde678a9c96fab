"""LEAF's files: JSON with users, and for each user samples x and labels y."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from motet.data.archives import read_file
from motet.errors import MotetError, shown
from motet.inspect_files import shown_path
from motet.room import refuse_if_too_large

_MEMORY = 5
"""Bytes of memory per byte of such a file: its text, and numbers as Python has them."""


@dataclass(frozen=True)
class UserData:
    """What one user has in one file."""

    user: str
    x: list[Any]
    y: list[Any]
    test: bool
    """Whether it comes from a folder `test`."""
    where: str


def read_users(paths: Sequence[Path]) -> Iterator[UserData]:
    """The users of all files, file by file, so that no more than one is in memory."""
    for path in paths:
        where = shown_path(path)
        for user, values in _users(path, where).items():
            x, y = (values.get(field) if isinstance(values, dict) else None for field in ("x", "y"))
            if not isinstance(x, list) or not isinstance(y, list) or len(x) != len(y):
                raise MotetError(
                    f"{where}: user {shown(user)} has no lists x and y of one length; accepted: LEAF's form"
                )
            yield UserData(user, x, y, path.parent.name == "test", where)


def _users(path: Path, where: str) -> dict[str, Any]:
    data = read_file(path)
    refuse_if_too_large(_MEMORY * len(data), where, "smaller files, as LEAF writes them")
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise MotetError(f"{where}: is no JSON ({str(error)[:80]}); accepted: a complete file of LEAF's") from None
    users = content.get("user_data") if isinstance(content, dict) else None
    if not isinstance(users, dict) or not users:
        raise MotetError(f"{where}: has no user_data; accepted: LEAF's form with users, num_samples and user_data")
    return users
