"""TOML as text: read it, write it, and read one `--set key=value`."""

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from motet.errors import MotetError

Values = dict[str, Any]


def read(path: Path) -> Values:
    """The choices in an experiment file."""
    try:
        return tomllib.loads(path.read_bytes().decode())
    except FileNotFoundError as error:
        raise MotetError(f"experiment file {path} does not exist") from error
    except OSError as error:
        raise MotetError(f"cannot read experiment file {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise MotetError(f"experiment file {path} is not text in UTF-8 (byte {error.start})") from error
    except tomllib.TOMLDecodeError as error:
        raise MotetError(f"experiment file {path} is not valid TOML: {error}") from error


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


def parse_set(text: str) -> Values:
    """`local.lr=0.1` as {"local": {"lr": 0.1}}; the value is TOML, a bare word is text."""
    key, equals, value = text.partition("=")
    names = [name.strip() for name in key.split(".")]
    if not equals or not all(names):
        raise MotetError(f"--set is {text!r}; accepted: key=value, such as local.lr=0.1")
    nested: Any = _parse(value.strip(), key.strip())
    for name in reversed(names):
        nested = {name: nested}
    return dict(nested)


def _parse(text: str, key: str) -> Any:
    try:
        found = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError as error:
        if text.startswith(('"', "'", "[", "{")):
            raise MotetError(f"--set {key} is {text}; accepted: a TOML value, such as 0.1, true or a word") from error
        return text
    value = found["value"]
    return value if len(found) == 1 and isinstance(value, bool | int | float | str | list | dict) else text


def _tables(values: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    header = ["[" + ".".join(map(_key, path)) + "]"] if path else []
    plain = [f"{_key(name)} = {literal(v)}" for name, v in values.items() if not isinstance(v, Mapping | None)]
    tables = ["\n".join(header + plain)] if header or plain else []
    for name, value in values.items():
        if isinstance(value, Mapping):
            tables += _tables(value, (*path, name))
    return tables


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else literal(name)
