"""Nested dictionaries as the text of TOML, which Python reads and does not write."""

import json
import re
from collections.abc import Mapping
from typing import Any


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
