"""JSON of files that anybody may have written: only what Motet itself writes is read, and never deeper or larger."""

import json
import math
from typing import Any

from motet.errors import MotetError

DEEPEST = 16  # an experiment inside a manifest is four deep
LARGEST = 2**63


def loads(data: bytes) -> Any:
    """The value of a JSON text in UTF-8; `ValueError` for NaN, infinity, huge numbers, deep nesting, half letters."""
    try:
        value = json.loads(data.decode(), parse_constant=_refuse)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    _check(value)
    return value


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def _check(value: Any) -> None:
    """Look at everything once, level by level."""
    level = [value]
    for _ in range(DEEPEST):
        inner: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                inner += each.keys()
                inner += each.values()
            elif isinstance(each, list):
                inner += each
            else:
                _check_plain(each)
        if not inner:
            return
        level = inner
    raise ValueError("nested too deeply")


def _check_plain(value: Any) -> None:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError("a number too large")
    elif isinstance(value, str):
        if not value.isascii():
            value.encode()  # half a character has no UTF-8
    elif isinstance(value, int) and not -LARGEST <= value < LARGEST:
        raise ValueError("a number too large")


def loads_object(data: bytes, where: str) -> dict[str, Any]:
    """A JSON object; `where` names it in the sentence for anything else."""
    try:
        value = loads(data)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise MotetError(f"{where} is damaged; accepted: a JSON object")
    return value
