"""Numbers that are written as people write them: 18,0 and 1.234,5, 1,234.50, 72 kg, 5 %, € 10.

A column of such texts is one of numbers, if all of its values are written in the same way; the sentence about it says
which. What could be read in two ways is refused.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from motet.config.data_section import Decimal
from motet.data.readers.values import MISSING
from motet.errors import MotetError, shown

_BLANKS = " \u00a0\u202f'’"
_SIGN = "[-+]?"
_MONEY = r"€|\$|£|¥|EUR|USD|GBP|CHF|JPY|Fr\."
_PARTS = re.compile(
    rf"(?P<prefix>{_MONEY})?\s*(?P<number>{_SIGN}\d[\d.,{_BLANKS}]*?)\s*(?P<suffix>[^\d\s.,'’+<>=:/-].{{0,11}})?",
    re.ASCII,
)
_PLAIN = re.compile(rf"{_SIGN}(\d+\.?\d*|\.\d+)([eE]{_SIGN}\d+)?", re.ASCII)

_WHOLE = re.compile(rf"{_SIGN}\d+", re.ASCII)


@dataclass(frozen=True)
class Notation:
    """How all values of a column of numbers are written: decimal sign, prefix and unit."""

    decimal: str
    prefix: str = ""
    suffix: str = ""
    example: str = ""

    @property
    def pattern(self) -> str:
        """Return the regular expression of a whole value, in a form that Python and Arrow share."""
        return rf"^{re.escape(self.prefix)}\s*({_number(self.decimal)})\s*{re.escape(self.suffix)}$"

    def numbers(self, texts: Any) -> Any:
        """Return a column of texts as numbers; raise `ValueError` for one that is written otherwise."""
        from motet.data.readers.cells import compute, pa

        bare = compute.utf8_trim_whitespace(texts)
        bare = compute.if_else(compute.is_in(bare, value_set=pa.array(MISSING)), pa.scalar(None, pa.string()), bare)
        if not compute.all(compute.match_substring_regex(bare, self.pattern), min_count=0).as_py():
            raise ValueError("written otherwise")
        number = compute.replace_substring_regex(bare, self.pattern, r"\1")
        digits = compute.replace_substring_regex(number, f"[^0-9+{self.decimal}-]", "")
        return compute.cast(compute.replace_substring(digits, self.decimal, "."), pa.float64())

    def value(self, text: str) -> float:
        """Return the number that one such text stands for."""
        from motet.data.readers.cells import pa

        return float(self.numbers(pa.array([text]))[0].as_py())


def _number(decimal: str) -> str:
    marks = _BLANKS + ("." if decimal == "," else ",")
    return rf"{_SIGN}([0-9]+|[1-9][0-9]{{0,2}}([{marks}][0-9]{{3}})+)(\{decimal}[0-9]+)?"


_AS = {decimal: re.compile(_number(decimal)) for decimal in (".", ",")}


def is_number(text: str) -> bool:
    """Return whether a text is a number in any notation, with or without a unit; codes such as 3a are none."""
    parts = _PARTS.fullmatch(text.strip())
    if is_plain(text) or parts is None:
        return is_plain(text)
    code = (parts["suffix"] or "").isalpha() and re.search(r"[\d.,]\w$", text.strip()) is not None
    return not code and any(way.fullmatch(parts["number"]) for way in _AS.values())


def numbers_among(texts: Sequence[str]) -> list[str]:
    """Return those texts that are numbers without a unit, or with one that all of them have."""
    parts = [_PARTS.fullmatch(text.strip()) for text in texts]
    units = {(part["prefix"] or "", part["suffix"] or "") for part in parts if part is not None}
    one_unit = len(units) == 1 and None not in parts
    return [
        text
        for text, part in zip(texts, parts, strict=True)
        if is_plain(text)
        or (
            part is not None
            and (one_unit or not (part["prefix"] or part["suffix"]))
            and any(way.fullmatch(part["number"]) for way in _AS.values())
        )
    ]


def is_plain(text: str) -> bool:
    """Return whether a text is a number as programs write it."""
    return _PLAIN.fullmatch(text.strip()) is not None


def notation_of(values: Iterable[str], decimal: Decimal, column: str, where: str) -> Notation | None:
    """Return how all these values are written; None if they share no notation, or are plain numbers."""
    texts = [value.strip() for value in values]
    parts = [_PARTS.fullmatch(text) for text in texts]
    found = [part for part in parts if part is not None]
    plain = _WHOLE if decimal == "," else _PLAIN
    odd = [text for text in texts if not plain.fullmatch(text)]
    if not odd or len(found) < len(parts):
        return None
    prefixes, suffixes = {part["prefix"] or "" for part in found}, {part["suffix"] or "" for part in found}
    if len(prefixes) > 1 or len(suffixes) > 1:
        return None
    sign = _decimal([part["number"] for part in found], decimal, column, where)
    return None if sign is None else Notation(sign, prefixes.pop(), suffixes.pop().strip(), odd[0])


def _decimal(numbers: Sequence[str], decimal: Decimal, column: str, where: str) -> str | None:
    fitting = [sign for sign, pattern in _AS.items() if all(pattern.fullmatch(number) for number in numbers)]
    if decimal != "auto":
        return decimal if decimal in fitting else None
    unclear = next((number for number in numbers if "," in number), None)
    if len(fitting) == 2 and unclear is not None:
        raise MotetError(
            f"{where}: column {shown(column)} holds {shown(unclear)}, which may have a decimal comma or one between "
            f"thousands; accepted: --decimal , or --decimal . (data.decimal)"
        )
    return fitting[0] if fitting else None
