"""TOML as text: read it, write it, and read one `--set key=value`."""

import re
import tomllib
from pathlib import Path
from typing import Any

from motet.errors import MotetError, shown
from motet.inspect_files import read_small, shown_path
from motet.runs.choices import FIELDS
from motet.toml_writing import dumps, literal

__all__ = ["dumps", "literal", "parse_set", "read"]

Values = dict[str, Any]
MOST_NAMES = 8  # in one dotted name; the deepest field has two


MOST_BYTES = 2**20
"""Of an experiment file; a complete one has some thousand."""


def read(path: Path, kind: str = "experiment file") -> Values:
    """The choices in an experiment file, or in another file of TOML."""
    what = f"{kind} {shown_path(path)}"
    try:
        text = read_small(path, MOST_BYTES, what).decode()
    except FileNotFoundError as error:
        raise MotetError(f"{what} does not exist") from error
    except OSError as error:
        raise MotetError(f"cannot read {what}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise MotetError(f"{what} is not text in UTF-8 (byte {error.start})") from error
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise MotetError(f"{what} nests its values too deeply; accepted: a value, or a list of some") from error
    except ValueError as error:  # TOML's own, and Python's about numbers of thousands of digits
        reason = "a number of thousands of digits" if "digits" in str(error) else f"{error}{_short_and_long(text)}"
        raise MotetError(f"{what} is not valid TOML: {reason}") from error


def _short_and_long(text: str) -> str:
    """What TOML cannot know: that `rounds = 2` is short for a field of [rounds], which is there too."""
    for name in ("data", "net", "rounds"):
        short, long = rf"^\s*{name}\s*=", rf"^\s*(\[\s*)?{name}\s*[].]"
        if re.search(short, text, re.MULTILINE) and re.search(long, text, re.MULTILINE):
            return f"; {name} = … is short for {FIELDS[name]}; accepted: one of them"
    return ""


def parse_set(text: str) -> Values:
    """`local.lr=0.1` as {"local": {"lr": 0.1}}; the value is TOML, a bare word is text."""
    key, equals, value = text.partition("=")
    names = [name.strip() for name in key.split(".")]
    if not equals or not all(names):
        raise MotetError(f"--set is {shown(text)}; accepted: key=value, such as local.lr=0.1")
    if len(names) > MOST_NAMES:
        raise MotetError(f"--set is {shown(text)}; accepted: a field by its name, such as local.lr")
    nested: Any = _parse(value.strip(), key.strip())
    for name in reversed(names):
        nested = {name: nested}
    return dict(nested)


def _parse(text: str, key: str) -> Any:
    try:
        found = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError) as error:  # TOML's own; a number of thousands of digits; lists in lists
        if text.startswith(('"', "'", "[", "{")):
            raise MotetError(
                f"--set {shown(key)} is {shown(text)}; accepted: a TOML value, such as 0.1, true or a word"
            ) from error
        return text
    value = found["value"]
    return value if len(found) == 1 and isinstance(value, bool | int | float | str | list | dict) else text
