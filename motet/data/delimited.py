"""Small tables of text in .csv files that data sets bring along, gzipped or not."""

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

from motet.data.archives import read_file
from motet.errors import MotetError, shown
from motet.inspect_files import shown_path

LONGEST_CELL = 10_000_000


def lines_of(path: Path) -> Iterator[list[str]]:
    """The rows of a .csv file, empty ones left out."""
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
    """The rows of a .csv file whose first row names its columns, which must be there; at least one row."""
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
