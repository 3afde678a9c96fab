"""A look at a CSV file as text before it is parsed: whether it is text, where rows end, and what quotes hold.

pyarrow closes a quote that is never closed, takes over whatever stands between two stray ones, and stops at a row that
is longer than its blocks. One pass over the bytes finds all of that first, with the number of the line.
"""

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from motet.data.readers.raw import Integers
from motet.errors import MotetError, shown

_CHUNK = 2**22  # bytes
LONGEST_ROW = 2**24
"""Bytes; beyond it a row is a mistake, such as a quote that is never closed."""
MOST_EMPTY_LINES = 1_000_000
"""A file that a program wrote has none; a small archive can hold any number of them."""
_QUOTE, _NEWLINE, _RETURN = b'"'[0], b"\n"[0], b"\r"[0]
_SURE = 3
"""Delimiters of a row from which on one line alone that has just as many is no chance."""


def text_of(path: Path, encoding: str, where: str, accepted: str) -> Iterator[bytes]:
    """The text of a file in UTF-8, decompressed if its name says so; a byte that is none is refused with its line."""
    from motet.data.readers.cells import pa

    decoder = codecs.getincrementaldecoder(encoding)()
    lines = 1
    with pa.input_stream(str(path), compression="detect") as stream:
        while True:
            data: bytes = stream.read(_CHUNK)
            try:
                text = decoder.decode(data, final=not data)
            except UnicodeDecodeError as error:
                line = lines + bytes(error.object[: error.start]).count(b"\n")
                raise MotetError(
                    f"{where}: is not text in {encoding.upper()} (line {line}); accepted: {accepted}"
                ) from None
            lines += text.count("\n")
            if not data:
                return
            yield data if encoding == "utf-8" else text.encode("utf-8", "surrogatepass")


def known_encoding(name: str) -> str:
    """The name of an encoding as Python has it, refused if it is none of text."""
    try:
        found = codecs.lookup(name)
        if not found._is_text_encoding:
            raise LookupError
        "".encode(found.name)
    except (LookupError, ValueError):
        raise MotetError(
            f"data.encoding is {shown(name)}; accepted: utf-8, latin-1, cp1252, utf-16 or another that Python knows"
        ) from None
    return found.name


@dataclass
class Survey:
    """What a first pass over a file of CSV finds: its lines, columns and the longest line."""

    where: str
    delimiter: bytes
    columns: int
    longest: int = 0
    """Bytes of the longest row."""
    _line: int = 1
    _empty: int = 0

    @property
    def lines(self) -> int:
        """Return how many lines were read so far."""
        return self._line

    def read(self, chunks: Iterator[bytes]) -> None:
        """Read all chunks; raise a `MotetError` for whatever pyarrow would misread."""
        rest = b""
        for chunk in chunks:
            if b"\0" in chunk:
                raise MotetError(f"{self.where}: is no text; accepted: CSV with a header line")
            rest = self._rows(rest + chunk)
            if len(rest) > LONGEST_ROW:
                raise self._too_long(self._line)
        left = self._rows(rest + b"\n") if rest else b""
        if left:
            line = self._line + left[: left.index(b'"')].count(b"\n")
            raise MotetError(
                f"{self.where}: a quote is opened and never closed, in line {line} or after it; accepted: a complete "
                f"CSV file, with quotes inside a cell doubled"
            )

    def _too_long(self, line: int) -> MotetError:
        return MotetError(
            f"{self.where}: the row that begins in line {line} has more than {LONGEST_ROW:,} bytes; accepted: shorter "
            f"rows, and quotes that are closed"
        )

    def _rows(self, data: bytes) -> bytes:
        """Look at the rows that are whole, and give back what is left of the last."""
        values = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero(values == _NEWLINE)
        quotes = np.flatnonzero(values == _QUOTE)
        if len(quotes):
            quotes = self._that_quote(data, values, quotes)
            open_at = np.searchsorted(quotes, ends) % 2 == 1
            inside, ends = ends[open_at], ends[~open_at]
            if not len(ends):
                return data
            inside = inside[inside < ends[-1]]
            if len(inside):
                self._look_inside(data, quotes, inside)
        if not len(ends):
            return data
        self._measure(values, ends)
        self._line += data.count(b"\n", 0, int(ends[-1]) + 1)
        return data[int(ends[-1]) + 1 :]

    def _measure(self, values: npt.NDArray[np.uint8], ends: Integers) -> None:
        lengths = np.diff(ends, prepend=-1)
        self.longest = max(self.longest, int(lengths.max()))
        if self.longest > LONGEST_ROW:
            start = int(ends[lengths.argmax()] - lengths.max())
            raise self._too_long(self._line + int(np.count_nonzero(values[: start + 1] == _NEWLINE)))
        bare = ends[lengths <= 2]
        self._empty += int(np.count_nonzero((lengths[lengths <= 2] == 1) | (values[bare - 1] == _RETURN)))
        if self._empty > MOST_EMPTY_LINES:
            raise MotetError(
                f"{self.where}: holds more than {MOST_EMPTY_LINES:,} empty lines; accepted: a row in each line"
            )

    def _that_quote(self, data: bytes, values: npt.NDArray[np.uint8], quotes: Integers) -> Integers:
        """The quotes that open and close, in turn; one inside a bare cell is a sign as any other."""
        before = np.where(quotes > 0, values[quotes - 1], _NEWLINE)
        after = np.where(quotes + 1 < len(values), values[np.minimum(quotes + 1, len(values) - 1)], _NEWLINE)
        edges = np.frombuffer(self.delimiter + b'"\r\n', np.uint8)
        opens, closes = np.isin(before[::2], edges), np.isin(after[1::2], edges)
        first = quotes[0] == 0 or (quotes[0] == 3 and data.startswith(codecs.BOM_UTF8))
        if (opens[1:].all() and (opens[0] or first)) and closes.all():
            return quotes
        return self._one_by_one(data, quotes)

    def _one_by_one(self, data: bytes, quotes: Integers) -> Integers:
        """Return the quotes that open or close a cell as a parser finds them, where one stands inside a cell."""
        edges, found, skip = self.delimiter + b"\r\n", list[int](), -1
        for at in quotes.tolist():
            if at == skip:
                continue
            if len(found) % 2:
                following = data[at + 1 : at + 2]
                if following == b'"':
                    skip = at + 1  # doubled: one sign of the cell
                    continue
                if following and following not in edges and b"\n" in data[found[-1] : at]:
                    line, later = self._line + data.count(b"\n", 0, found[-1]), data.count(b"\n", found[-1], at)
                    raise MotetError(
                        f"{self.where}: a quote in line {line} opens a cell that a quote within a cell closes "
                        f"{later} lines later; accepted: quotes around whole cells, and doubled inside them"
                    )
                found.append(at)
            elif at == 0 or data[at - 1 : at] in edges or (at == 3 and data.startswith(codecs.BOM_UTF8)):
                found.append(at)
        return np.array(found, np.int64)

    def _look_inside(self, data: bytes, quotes: Integers, inside: Integers) -> None:
        """Cells of several lines may be texts; lines that are all as rows should be are rows that a quote swallowed."""
        for number in np.unique(np.searchsorted(quotes, inside)).tolist():
            start, stop = int(quotes[number - 1]), int(quotes[number])
            lines = data[start:stop].split(b"\n")[1:-1]
            wanted = self.columns - 1
            if len(lines) < (1 if wanted >= _SURE else _SURE) or not wanted:
                continue
            if all(line.count(self.delimiter) == wanted for line in lines):
                line = self._line + data.count(b"\n", 0, start)
                raise MotetError(
                    f"{self.where}: the cell in quotes that begins in line {line} goes on over {len(lines) + 1} lines "
                    f"that look like rows; accepted: quotes that are closed in their cell"
                )
