"""The grammar of sums: `name(option=value, ...)+name(...)`, a name may be `module:Name` or `path/file.py:Name`."""

import re
import tomllib
from dataclasses import dataclass, field

from motet.errors import MotetError

_TERM = re.compile(r"\s*((?:[^\s()+:,=]+:)?[A-Za-z_][\w-]*)\s*(?:\(([^()]*)\))?\s*")


@dataclass(frozen=True)
class Term:
    """One summand of a method's name."""

    name: str
    options: dict[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        inner = ", ".join(f"{key}={_shown(value)}" for key, value in self.options.items())
        return f"{self.name}({inner})" if inner else self.name


def parse(text: str) -> list[Term]:
    """The terms of a method's name, in the order written."""
    terms, at = [], 0
    while True:
        match = _TERM.match(text, at)
        if not match:
            raise _bad(text, f"nothing readable at {text[at:]!r}")
        name = match[1] if ":" in match[1] else match[1].lower()
        terms.append(Term(name, _options(text, match[2] or "")))
        at = match.end()
        if at == len(text):
            return terms
        if text[at] != "+":
            raise _bad(text, f"unexpected {text[at:]!r}")
        at += 1


def _options(text: str, inside: str) -> dict[str, object]:
    options: dict[str, object] = {}
    for item in filter(None, (piece.strip() for piece in inside.split(","))):
        key, equals, value = (piece.strip() for piece in item.partition("="))
        if not equals or not re.fullmatch(r"[A-Za-z_]\w*", key) or not value:
            raise _bad(text, f"{item!r} is not option=value")
        if key in options:
            raise _bad(text, f"option {key!r} is given twice")
        options[key] = literal(value)
    return options


def literal(text: str) -> object:
    """A TOML value, or the text itself where it is a bare word."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        try:
            return float(text)  # TOML has no 1. or .5
        except ValueError:
            return text.strip("'\"")


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _bad(text: str, reason: str) -> MotetError:
    return MotetError(
        f"method {text!r} cannot be read ({reason}); accepted: names joined by +, such as fedprox(mu=0.01)+ft"
    )
