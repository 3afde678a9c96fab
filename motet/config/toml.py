"""TOML: read a file of settings, read one `--set key=value`, and write settings back.

Python reads TOML itself; tomli-w writes it, and its floats come back bit for bit. `commented` makes the experiment file
of `motet init` from the sections themselves, so that it never goes stale.
"""

import re
import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tomli_w

from motet.config.nesting import nest
from motet.config.section import Section, accepted, section_of
from motet.config.short_names import FIELDS
from motet.errors import MotetError, shown
from motet.io.user_paths import read_small, shown_path

__all__ = ["Values", "commented", "dumps", "parse_set", "read"]

Values = dict[str, Any]
MOST_NAMES = 8  # in one dotted name; the deepest field has two
MOST_BYTES = 2**20  # of an experiment file; a complete one has some thousand


def dumps(values: Mapping[str, Any]) -> str:
    """Return a nested dictionary as TOML, a table per inner dictionary; a value of None is left out."""
    return tomli_w.dumps(_without_none(values))


def _without_none(values: Mapping[str, Any]) -> Values:
    return {
        name: _without_none(value) if isinstance(value, Mapping) else value
        for name, value in values.items()
        if value is not None
    }


def read(path: Path, kind: str = "experiment file") -> Values:
    """Return the values in an experiment file, or in another file of TOML; `kind` names it in errors."""
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
    """Return a hint where a file has both `rounds = 2`, which is short for a field of [rounds], and that table."""
    for name in ("data", "net", "rounds"):
        short, long = rf"^\s*{name}\s*=", rf"^\s*(\[\s*)?{name}\s*[].]"
        if re.search(short, text, re.MULTILINE) and re.search(long, text, re.MULTILINE):
            return f"; {name} = … is short for {FIELDS[name]}; accepted: one of them"
    return ""


def parse_set(text: str) -> Values:
    """Return `local.lr=0.1` as {"local": {"lr": 0.1}}; the value is TOML, and a bare word is text."""
    key, equals, value = text.partition("=")
    names = [name.strip() for name in key.split(".")]
    if not equals or not all(names):
        raise MotetError(f"--set is {shown(text)}; accepted: key=value, such as local.lr=0.1")
    if len(names) > MOST_NAMES:
        raise MotetError(f"--set is {shown(text)}; accepted: a field by its name, such as local.lr")
    return nest({tuple(names): _parse(value.strip(), key.strip())})


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


_HEAD = """\
A complete experiment of Motet. Every line may be left out.
What counts: the defaults, over them the preset of `protocol`, over it this file, over it the command line.
A preset cannot change a value that is written here: delete the lines that it shall decide."""


def commented(section: Section) -> str:
    """Return an experiment file that has every field with its meaning, what it accepts and its present value."""
    return "\n".join([*(f"# {line}" for line in _HEAD.splitlines()), "", *_lines(section, "")]).rstrip() + "\n"


def _lines(section: Section, prefix: str) -> Iterator[str]:
    inner: list[tuple[str, Section]] = []
    for name, info in type(section).model_fields.items():
        value = getattr(section, name)
        if section_of(info) is not None:
            inner.append((prefix + name, value))
            continue
        yield from _comment(info.description or "")
        yield from _comment(f"accepted: {accepted(info)}")
        yield _assignment(name, value)
        yield ""
    for path, value in inner:
        yield f"[{path}]"
        yield from _comment((value.__doc__ or "").removeprefix(f"[{path}]: "))
        yield ""
        yield from _lines(value, f"{path}.")


def _assignment(name: str, value: Any) -> str:
    return f"# {name} =" if value is None else dumps({name: value}).rstrip()


def _comment(text: str) -> list[str]:
    return textwrap.wrap(" ".join(text.split()), 110, initial_indent="# ", subsequent_indent="# ")
