"""The parser of names with options, `name(option=value, ...)+name(...)`; a name may be `path/file.py:Name`."""

import re
import tomllib
from dataclasses import dataclass, field

from motet.errors import MotetError, shown

_TERM = re.compile(r"\s*((?:[^\s()+:,=]+:)?[A-Za-z_][\w-]*)\s*(?:\(([^()]*)\))?\s*")


@dataclass(frozen=True)
class Term:
    """One name with its options, such as `fedprox(mu=0.01)`."""

    name: str
    options: dict[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        inner = ", ".join(f"{key}={_shown(value)}" for key, value in self.options.items())
        return f"{self.name}({inner})" if inner else self.name


class _Unreadable(Exception):
    """Raised with the reason why a text cannot be parsed."""


def parse(text: str, kind: str = "method", such_as: str = "fedprox(mu=0.01)+ft") -> list[Term]:
    """Return the terms of a sum such as `fedprox(mu=0.01)+ft`, in order; raise `MotetError` if it cannot be parsed."""
    try:
        return _terms(text)
    except _Unreadable as why:
        raise MotetError(
            f"{kind} {shown(text)} cannot be read ({why}); accepted: names joined by +, such as {such_as}"
        ) from None


def parse_one(text: str, kind: str, such_as: str) -> Term:
    """Return a single name with its options; raise `MotetError` if the text is a sum or cannot be parsed."""
    try:
        first, *more = _terms(text)
        if more:
            raise _Unreadable("it is a sum")
    except _Unreadable as why:
        raise MotetError(
            f"{kind} {shown(text)} cannot be read ({why}); accepted: a name with options in brackets, as {such_as}"
        ) from None
    return first


def _terms(text: str) -> list[Term]:
    terms, at = [], 0
    while True:
        match = _TERM.match(text, at)
        if not match:
            raise _Unreadable(f"nothing readable at {shown(text[at:])}")
        name = match[1] if ":" in match[1] else match[1].lower()
        terms.append(Term(name, _options(match[2] or "")))
        at = match.end()
        if at == len(text):
            return terms
        if text[at] != "+":
            raise _Unreadable(f"unexpected {shown(text[at:])}")
        at += 1


def _options(inside: str) -> dict[str, object]:
    options: dict[str, object] = {}
    for item in filter(None, (piece.strip() for piece in inside.split(","))):
        key, equals, value = (piece.strip() for piece in item.partition("="))
        if not equals or not re.fullmatch(r"[A-Za-z_]\w*", key) or not value:
            raise _Unreadable(f"{shown(item)} is not option=value")
        if key in options:
            raise _Unreadable(f"option {key!r} is given twice")
        options[key] = literal(value)
    return options


def literal(text: str) -> object:
    """Return the TOML value of a text, or the text itself if it is a bare word."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):  # TOML's own; a number of thousands of digits; lists in lists
        try:
            return float(text)  # TOML has no 1. or .5
        except ValueError:
            return text.strip("'\"")


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
