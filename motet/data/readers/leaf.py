"""Text files that data sets bring along: LEAF's JSON of users, and small tables in .csv files, gzipped or not."""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from motet.data.readers.archives import read_file
from motet.errors import MotetError, shown
from motet.io.memory_limits import refuse_if_too_large
from motet.io.user_paths import shown_path

_MEMORY = 5
"""Bytes of memory per byte of such a file: its text, and numbers as Python has them."""


@dataclass(frozen=True)
class UserData:
    """The samples and labels that one user has in one file of LEAF."""

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


# -------- Small tables of text in .csv files that data sets bring along, gzipped or not


LONGEST_CELL = 10_000_000


def lines_of(path: Path) -> Iterator[list[str]]:
    """Yield the rows of a .csv file without the empty ones."""
    try:
        text = read_file(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise MotetError(f"{shown_path(path)}: is no text in UTF-8 ({error.reason}); accepted: a .csv file") from None
    limit = csv.field_size_limit(LONGEST_CELL)
    try:
        for row in csv.reader(io.StringIO(text, newline=""), strict=True):
            if row:
                yield row
    except csv.Error as error:
        raise MotetError(f"{shown_path(path)}: cannot be read as .csv ({error}); accepted: a complete file") from None
    finally:
        csv.field_size_limit(limit)


def rows_of(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """Return the rows of a .csv file as dictionaries; its first row names these columns, and one row follows."""
    lines = lines_of(path)
    header = next(lines, [])
    missing = next((column for column in columns if column not in header), None)
    if missing is not None:
        found = ", ".join(map(shown, header[:8])) or "none"
        raise MotetError(
            f"{shown_path(path)}: column {missing!r} is missing among {found}; accepted: {', '.join(columns)}"
        )
    rows = []
    for number, row in enumerate(lines, 1):
        if len(row) != len(header):
            raise MotetError(
                f"{shown_path(path)}: row {number} has {len(row)} cells; accepted: {len(header)}, as the first row"
            )
        rows.append(dict(zip(header, row, strict=True)))
    if not rows:
        raise MotetError(f"{shown_path(path)}: holds no rows; accepted: at least one")
    return rows
