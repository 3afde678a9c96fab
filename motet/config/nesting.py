"""Convert choices between nested dictionaries and dotted names, and merge them."""

from collections.abc import Mapping
from typing import Any

Values = dict[str, Any]


def merge(*layers: Mapping[str, Any]) -> Values:
    """Return nested dictionaries merged into one; later ones win, and a value of None changes nothing."""
    merged: Values = {}
    for layer in layers:
        for name, value in layer.items():
            if isinstance(value, Mapping):
                below = merged.get(name)
                merged[name] = merge(below if isinstance(below, Mapping) else {}, value)
            elif value is not None:
                merged[name] = value
    return merged


def flatten(values: Mapping[str, Any], prefix: str = "") -> Values:
    """Return nested values by their dotted names: {"local": {"lr": 0.1}} becomes {"local.lr": 0.1}."""
    flat: Values = {}
    for name, value in values.items():
        flat |= flatten(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {prefix + name: value}
    return flat


def nest(flat: Mapping[str, Any] | Mapping[tuple[str, ...], Any]) -> Values:
    """Return dotted names as nested dictionaries: {"local.lr": 0.1} becomes {"local": {"lr": 0.1}}.

    A name may also be given as the tuple of its parts, which may contain dots.
    """
    nested: Values = {}
    for dotted, value in flat.items():
        *sections, name = dotted if isinstance(dotted, tuple) else dotted.split(".")
        inner = nested
        for section in sections:
            inner = inner.setdefault(section, {})
        inner[name] = value
    return nested
