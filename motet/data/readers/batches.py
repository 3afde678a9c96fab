"""Tables on disk or in memory as a stream of record batches, so that no file is in memory as text."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from motet.config.data_section import Columns
from motet.data.readers.raw import Integers
from motet.data.readers.survey import Survey, known_encoding, text_of
from motet.data.readers.values import FALSE, MISSING, TRUE
from motet.errors import MotetError, shown
from motet.io.memory_limits import refuse_if_too_large
from motet.io.user_paths import regular_size, shown_path

CSV = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
PARQUET = (".parquet", ".pq")
DELIMITERS = ",;\t|"
MOST_COLUMNS = 30_000
"""Of a table: each costs time in every piece that is read."""
_LONGEST_LINE = 2**20  # of the header
_BLOCK = 2**18  # bytes; pyarrow reads dozens ahead
_LINES = 8  # of the header's length, at least, in a block
_MANY_LINES, _WIDE_BLOCK = 256, 2**22  # of a wide table: each piece costs time for each of its columns
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
    split: Callable[[], Integers] | None = None
    """Of each row that was read last, 1 for the official test set; None where the table does not say it."""


def is_table(path: Path) -> bool:
    """Whether the name of a file says that it is a table."""
    return path.name.lower().endswith((*CSV, *PARQUET))


def open_table(path: Path, columns: Columns | None = None) -> Batches:
    """The table in a file of CSV or Parquet; `columns` says how its text is written."""
    where = shown_path(path)
    other = "CSV in UTF-8" if columns is None else "CSV in UTF-8, or --encoding such as latin-1"
    columns = columns or Columns()
    try:
        size = regular_size(path, where)
    except FileNotFoundError:
        raise MotetError(f"{where}: no such file; accepted: a table in {', '.join((*CSV, *PARQUET))}") from None
    except OSError as error:
        raise MotetError(f"{where}: cannot be read ({error.strerror}); accepted: a file that can be") from error
    if not size:
        raise MotetError(f"{where}: is empty; accepted: a table with a header line and rows")
    if not path.name.lower().endswith(PARQUET):
        return _open_csv(path, where, known_encoding(columns.encoding), columns.decimal, other)
    if columns.encoding != Columns().encoding:
        raise MotetError(f"data.encoding is {shown(columns.encoding)}, but {where} is Parquet; accepted: for CSV alone")
    return _open_parquet(path, where)


def release_memory() -> None:
    """Give back what pyarrow keeps of a table that was read."""
    from motet.data.readers.cells import pa

    pa.default_memory_pool().release_unused()


def validated(batch: RecordBatch, where: str) -> RecordBatch:
    """A batch whose every offset and text was looked at: pyarrow follows wrong ones out of its memory."""
    from motet.data.readers.cells import pa

    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            column.validate(full=True)
        except (pa.ArrowException, ValueError) as error:
            why = (str(error).splitlines() or [type(error).__name__])[0]
            text = "UTF8" in why or "UTF-8" in why
            raise MotetError(
                f"{where}: column {shown(name)} "
                + ("holds text that is not UTF-8" if text else f"is damaged ({shown(why)[1:-1]})")
                + "; accepted: a complete file with text in UTF-8"
            ) from error
    return batch


# -------- CSV


def _open_csv(path: Path, where: str, encoding: str, decimal: str, accepted: str) -> Batches:
    with _sentences(where, "CSV", []):
        header = _header(text_of(path, encoding, where, accepted), where)
        delimiter = _delimiter(header)
        survey = Survey(where, delimiter.encode(), re.sub(r'"[^"]*"', "", header).count(delimiter) + 1)
        survey.read(text_of(path, encoding, where, accepted))
        block = max(_BLOCK, _LINES * len(header), 2 * survey.longest, min(_MANY_LINES * len(header), _WIDE_BLOCK))
        form = _Form(encoding, delimiter, decimal, block)
        refuse_if_too_large(4.0 * survey.lines * survey.columns, where, "a table that fits")  # before it is parsed
        found = _csv_reader(path, form, {}).schema
        written = list(found.names)
    names, nameless = _named(written, where)

    def read(types: Types) -> Iterator[RecordBatch]:
        as_written = dict(zip(names, written, strict=True))
        forced = {as_written[name]: kind for name, kind in types.items()}
        with _sentences(where, "CSV", names):
            for batch in _csv_reader(path, form, forced):
                yield batch.rename_columns(names)
        release_memory()

    return Batches(where, dict(zip(names, found.types, strict=True)), read, nameless)


@dataclass(frozen=True)
class _Form:
    """How a file of CSV is written, and in which blocks it is read."""

    encoding: str
    delimiter: str
    decimal: str
    block: int


def _csv_reader(path: Path, form: _Form, types: Types) -> Any:
    from motet.data.readers.cells import csv, pa

    return csv.open_csv(
        pa.input_stream(str(path), compression="detect"),
        read_options=csv.ReadOptions(block_size=form.block, use_threads=False, encoding=form.encoding),
        parse_options=csv.ParseOptions(delimiter=form.delimiter, newlines_in_values=True),
        convert_options=csv.ConvertOptions(
            column_types=dict(types),
            null_values=list(MISSING),
            strings_can_be_null=True,
            true_values=list(TRUE),
            false_values=list(FALSE),
            decimal_point="," if form.decimal == "," else ".",
        ),
    )


def _delimiter(header: str) -> str:
    """The sign between columns that stands in the header most often."""
    return max(DELIMITERS, key=re.sub(r'"[^"]*"', "", header).count)


def _header(chunks: Iterator[bytes], where: str) -> str:
    """The first line of a file, as far as it may be long."""
    text = b""
    for chunk in chunks:
        text += chunk
        if b"\n" in text or len(text) > _LONGEST_LINE:
            break
    if b"\0" in text:
        raise MotetError(f"{where}: is no text; accepted: CSV in UTF-8 with a header line")
    return text[:_LONGEST_LINE].split(b"\n", 1)[0].decode(errors="replace")


# -------- Parquet


def _open_parquet(path: Path, where: str) -> Batches:
    from motet.data.readers.cells import parquet

    with _sentences(where, "Parquet", []):
        schema = parquet.ParquetFile(path).schema_arrow
    names, nameless = _named(schema.names, where)

    def read(types: Types) -> Iterator[RecordBatch]:
        with _sentences(where, "Parquet", []), parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_ROWS):
                yield validated(batch.rename_columns(names), where)
        release_memory()

    return Batches(where, dict(zip(names, schema.types, strict=True)), read, nameless)


# -------- What is wrong with a file


def _named(given: list[str], where: str) -> tuple[list[str], frozenset[str]]:
    """A name of its own for each column, and which of them have none in the file."""
    if len(given) > MOST_COLUMNS:
        raise MotetError(f"{where}: has {len(given):,} columns; accepted: at most {MOST_COLUMNS:,}")
    names = [str(name).strip() or f"(column {i})" for i, name in enumerate(given, 1)]
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
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
            raise OtherType(names[int(found[1])]) from error
        first = re.sub(r"(Expected \d+ columns, got \d+).*", r"\1", lines[0]) if lines else ""  # without the row itself
        why = shown(first)[1:-1] or type(error).__name__
        accepted = "a complete file with a header line" if form == "CSV" else "a complete file"
        raise MotetError(f"{where}: cannot be read as {form} ({why}); accepted: {accepted}") from error
