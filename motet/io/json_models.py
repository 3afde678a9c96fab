"""JSON that Motet writes and reads: text, and the base of the pydantic models that describe its files.

A file may be damaged, or anybody's: what is read is never deeper or larger than what Motet writes, and a model says
what each field may hold. Written and read through the same model, a file cannot drift from its checks.
"""

import json
import math
from collections.abc import Mapping
from typing import Annotated, Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from motet.errors import MotetError, shown

T = TypeVar("T")

DEEPEST = 16  # an experiment inside a manifest is four deep
LARGEST = 2**63


# -------- Reading


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


# -------- Types that several formats share, with the bounds of what Motet writes


LARGEST_NUMBER = 1e100
"""Of a recorded number: what a net in 32 bits says is less, and sums and squares of such are finite."""
MOST_TEXT = 2**16
"""Characters of a name or a sentence that a user's data or code may give."""

Count = Annotated[int, Field(ge=0, lt=LARGEST)]
Number = Annotated[int, Field(ge=-LARGEST, lt=LARGEST)] | Annotated[float, Field(ge=-LARGEST_NUMBER, le=LARGEST_NUMBER)]
"""A whole number stays whole: it is written as it was read."""
Text = Annotated[str, Field(max_length=MOST_TEXT)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

STRICT = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)
"""Strict types, no unknown keys, finite numbers, never changed in place."""


class FileModel(BaseModel):
    """The base of every file format; see `STRICT`."""

    model_config = STRICT

    @classmethod
    def from_json(cls, data: bytes, where: str) -> Self:
        """Return the model that these bytes of JSON hold; `where` names the file in the sentence about any other."""
        loads_object(data, where)  # depth and size of numbers, which pydantic does not bound
        try:
            return cls.model_validate_json(data)
        except ValidationError as error:
            raise damaged(error, where) from None

    def to_json(self, indent: int | None = None) -> bytes:
        """Return the bytes of the file, with sorted keys and a line end."""
        return (to_json(self.model_dump(mode="json"), indent) + "\n").encode()


def damaged(error: ValidationError, where: str) -> MotetError:
    """Return the error that names the first field of a file that is not as Motet writes it."""
    return MotetError(f"{where} is damaged: {first_fault(error)}")


def first_fault(error: ValidationError) -> str:
    """Return which field is wrong, what it is and what is accepted."""
    first = error.errors(include_url=False, include_context=False)[0]
    name = ".".join(str(part) for part in first["loc"] if not _is_kind(part)) or "it"
    why = "is missing" if first["type"] == "missing" else f"is {shown(first['input'])}"
    accepted = first["msg"].removeprefix("Value error, ")
    if not first["loc"] and first["type"] == "value_error":
        return f"its parts do not fit together; accepted: what Motet wrote ({accepted[:120]})"
    return f"{name[:100]} {why}; accepted: what Motet wrote ({accepted[:120]})"


def _is_kind(part: int | str) -> bool:
    """Whether a part of a place is pydantic's word for a type that was tried, not a key of the file."""
    return isinstance(part, str) and part.startswith("constrained-")


def fitted(kind: type[T], value: object, where: str, **context: object) -> T:
    """Return plain values as the model of them, or raise one sentence about the first that does not fit."""
    try:
        return TypeAdapter(kind).validate_python(value, context=context)
    except ValidationError as error:
        raise damaged(error, where) from None


# -------- Writing


def to_json(value: Any, indent: int | None = None) -> str:
    """JSON with sorted keys and exact floats; what is not a finite number becomes null."""
    return json.dumps(plain(value), sort_keys=True, allow_nan=False, ensure_ascii=False, indent=indent)


def plain(value: Any) -> Any:
    """Return a value as JSON has it: dictionaries, lists and scalars; what is not a finite number becomes None."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):  # NumPy and torch
        return plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value
