"""A commented experiment file, made from the sections themselves so that it never goes stale."""

import json
import re
import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from motet.config.section import Section, accepted, section_of
from motet.config.short_names import FIELDS
from motet.errors import MotetError, shown
from motet.io.user_paths import read_small, shown_path

# -------- Nested dictionaries as the text of TOML, which Python reads and does not write


def dumps(values: Mapping[str, Any]) -> str:
    """The text of a nested dictionary: plain values first, then a table per dictionary; None is left out."""
    return "\n\n".join(_tables(values, ())) + "\n"


def literal(value: Any) -> str:
    """One value as TOML; floats come back bit for bit."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple):
        return "[" + ", ".join(literal(item) for item in value) + "]"
    raise TypeError(f"no TOML for a {type(value).__name__}")


def _tables(values: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    header = ["[" + ".".join(map(_key, path)) + "]"] if path else []
    plain = [f"{_key(name)} = {literal(v)}" for name, v in values.items() if not isinstance(v, Mapping | None)]
    within = any(isinstance(value, Mapping) for value in values.values())
    tables = ["\n".join(header + plain)] if plain or (header and not within) else []
    for name, value in values.items():
        if isinstance(value, Mapping):
            tables += _tables(value, (*path, name))
    return tables


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else literal(name)


# -------- TOML as text: read it, write it, and read one `--set key=value`


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


# -------- A commented experiment file, made from the sections themselves so that it never goes stale


_HEAD = """\
A complete experiment of Motet. Every line may be left out.
What counts: the defaults, over them the preset of `protocol`, over it this file, over it the command line.
A preset cannot change a value that is written here: delete the lines that it shall decide."""


def commented(section: Section) -> str:
    """Every field with its meaning, what it accepts and its present value, as TOML."""
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
    return f"# {name} =" if value is None else f"{name} = {literal(value)}"


def _comment(text: str) -> list[str]:
    return textwrap.wrap(" ".join(text.split()), 110, initial_indent="# ", subsequent_indent="# ")
