"""Tables on disk or in memory as a stream of record batches, so that no file is in memory as text."""

import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from motet.data.values import FALSE, MISSING, TRUE
from motet.errors import MotetError, shown
from motet.inspect_files import regular_size, shown_path

CSV = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
PARQUET = (".parquet", ".pq")
DELIMITERS = ",;\t|"
_LONGEST_LINE = 2**20  # of the header
_BLOCK = 2**18  # bytes; pyarrow reads dozens ahead
_LINES = 8  # of the header's length, at least, in a block
_ROWS = 2**16

# pyarrow's, which says nothing of its types
RecordBatch: TypeAlias = Any
DataType: TypeAlias = Any
Types = Mapping[str, DataType]


class OtherType(Exception):
    """A column holds something else than its first rows promised."""

    def __init__(self, column: str):
        super().__init__(column)
        self.column = column


@dataclass(frozen=True)
class Batches:
    """A table that can be read again and again; columns are known by their names, and each has one."""

    where: str
    """Its origin, for sentences."""
    types: Types
    """Of every column, as the table says or its first rows promise."""
    read: Callable[[Types], Iterator[RecordBatch]]
    """From the first row to the last, with other types where they are given; `OtherType` for what they do not fit."""
    nameless: frozenset[str] = frozenset()
    """Columns that the table has no name for, such as an index that pandas wrote: they are called by their place."""
    classes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Of a column whose values the table lists, all of them in order."""


def is_table(path: Path) -> bool:
    """Whether the name of a file says that it is a table."""
    return path.name.lower().endswith((*CSV, *PARQUET))


def open_table(path: Path) -> Batches:
    """The table in a file of CSV or Parquet."""
    where = shown_path(path)
    try:
        size = regular_size(path, where)
    except FileNotFoundError:
        raise MotetError(f"{where}: no such file; accepted: a table in {', '.join((*CSV, *PARQUET))}") from None
    except OSError as error:
        raise MotetError(f"{where}: cannot be read ({error.strerror}); accepted: a file that can be") from error
    if not size:
        raise MotetError(f"{where}: is empty; accepted: a table with a header line and rows")
    return _open_parquet(path, where) if path.name.lower().endswith(PARQUET) else _open_csv(path, where)


def release_memory() -> None:
    """Give back what pyarrow keeps of a table that was read."""
    from motet.data.own.arrow import pa

    pa.default_memory_pool().release_unused()


# ---------------------------------------------------------------- CSV


def _open_csv(path: Path, where: str) -> Batches:
    with _sentences(where, "CSV", []):
        first = _first_line(path)
    if "\0" in first:
        raise MotetError(f"{where}: is no text; accepted: CSV in UTF-8 with a header line")
    with _sentences(where, "CSV", []):
        found = _csv_reader(_Counted(path), first, {}).schema
    names, nameless = _named(found.names, where)
    for name, kind in zip(names, found.types, strict=True):
        if str(kind) == "binary":
            raise MotetError(f"{where}: column {shown(name)} is no text in UTF-8; accepted: CSV in UTF-8")

    def read(types: Types) -> Iterator[RecordBatch]:
        as_written = dict(zip(names, found.names, strict=True))
        forced = {as_written[name]: kind for name, kind in types.items()}
        counted = _Counted(path)
        with _sentences(where, "CSV", names):
            for batch in _csv_reader(counted, first, forced):
                yield batch.rename_columns(names)
        release_memory()
        if counted.quotes % 2:
            raise MotetError(f"{where}: a quote is opened and never closed; accepted: a complete CSV file")

    return Batches(where, dict(zip(names, found.types, strict=True)), read, nameless)


def _csv_reader(file: "_Counted", first_line: str, types: Types) -> Any:
    """With the sign between columns that stands in the header most often."""
    from motet.data.own.arrow import csv, pa

    delimiter = max(DELIMITERS, key=re.sub(r'"[^"]*"', "", first_line).count)
    return csv.open_csv(
        pa.PythonFile(file, mode="r"),
        read_options=csv.ReadOptions(block_size=max(_BLOCK, _LINES * len(first_line)), use_threads=False),
        parse_options=csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            column_types=dict(types),
            null_values=list(MISSING),
            strings_can_be_null=True,
            true_values=list(TRUE),
            false_values=list(FALSE),
        ),
    )


class _Counted(io.RawIOBase):
    """The text of a file, decompressed if its name says so; counts quotes, because pyarrow closes an open one."""

    def __init__(self, path: Path):
        from motet.data.own.arrow import pa

        self._stream = pa.input_stream(str(path), compression="detect")
        self.quotes = 0

    def readable(self) -> bool:
        """It is."""
        return True

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        data: bytes = self._stream.read(size if size >= 0 else None)
        self.quotes += data.count(b'"')
        return data

    def close(self) -> None:
        """The file behind it too."""
        self._stream.close()
        super().close()


def _first_line(path: Path) -> str:
    file = _Counted(path)
    line = file.read(_LONGEST_LINE).split(b"\n", 1)[0].decode(errors="replace")
    file.close()
    return line


# ---------------------------------------------------------------- Parquet


def _open_parquet(path: Path, where: str) -> Batches:
    from motet.data.own.arrow import parquet

    with _sentences(where, "Parquet", []):
        schema = parquet.ParquetFile(path).schema_arrow
    names, nameless = _named(schema.names, where)

    def read(types: Types) -> Iterator[RecordBatch]:
        with _sentences(where, "Parquet", []), parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_ROWS):
                yield batch.rename_columns(names)
        release_memory()

    return Batches(where, dict(zip(names, schema.types, strict=True)), read, nameless)


# ---------------------------------------------------------------- what is wrong with a file


def _named(given: list[str], where: str) -> tuple[list[str], frozenset[str]]:
    """A name of its own for each column, and which of them have none in the file."""
    names = [str(name).strip() or f"(column {i})" for i, name in enumerate(given, 1)]
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        raise MotetError(f"{where}: column {shown(twice)} is there more than once; accepted: each name once")
    return names, frozenset(name for name, before in zip(names, given, strict=True) if not str(before).strip())


_OTHER_TYPE = re.compile(r"In CSV column #(\d+).*CSV conversion error to (\w+)")


@contextmanager
def _sentences(where: str, form: str, names: list[str]) -> Iterator[None]:
    """Whatever pyarrow has for a file that somebody else wrote, as one sentence."""
    try:
        yield
    except (MotetError, OtherType):
        raise
    except Exception as error:
        lines = str(error).strip().splitlines()
        found = _OTHER_TYPE.match(lines[0]) if lines else None
        if found and int(found[1]) < len(names):
            if found[2] == "string":
                raise MotetError(
                    f"{where}: column {shown(names[int(found[1])])} is no text in UTF-8; accepted: CSV in UTF-8"
                ) from error
            raise OtherType(names[int(found[1])]) from error
        first = re.sub(r"(Expected \d+ columns, got \d+).*", r"\1", lines[0]) if lines else ""  # without the row itself
        why = shown(first)[1:-1] or type(error).__name__
        accepted = "a complete file with a header line" if form == "CSV" else "a complete file"
        raise MotetError(f"{where}: cannot be read as {form} ({why}); accepted: {accepted}") from error
