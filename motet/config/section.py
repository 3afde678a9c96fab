"""The base class of the experiment's sections, and the error messages about their fields."""

import math
from collections.abc import Callable, Iterator, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin

import annotated_types
from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator
from pydantic.fields import FieldInfo

from motet.errors import MotetError, shown, unknown

LARGEST_COUNT = 10**9
"""The bound of whole numbers in fields without their own."""
_TRIED = "tried"
LARGEST_SEED = 2**63 - 1
"""The bound of seeds, whose fields declare `le=LARGEST_SEED`."""
LARGEST, SMALLEST = 1e20, 1e-15
"""The bounds of floats, the lower one for fields above 0: their quotient still fits into 32 bits."""


class Section(BaseModel):
    """One table of the experiment file, or the options of a method, net, metric or transform."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    short_names: ClassVar[tuple[str, ...]] = ()
    """Short names of its fields, for suggestions in the error about an unknown field."""

    @field_validator("*")
    @classmethod
    def _within_bounds(cls, value: Any, info: ValidationInfo) -> Any:
        """Raise for numbers too large or small to compute with, which would fail later with a worse message."""
        if isinstance(value, bool):
            return value
        if isinstance(value, int):
            bounded = any(
                isinstance(limit, annotated_types.Le | annotated_types.Lt)
                for limit in cls.model_fields[info.field_name or ""].metadata
            )
            if not bounded and abs(value) > LARGEST_COUNT:
                raise ValueError(f"accepted: a whole number of at most {LARGEST_COUNT}")
        elif isinstance(value, float):
            if math.fabs(value) > LARGEST:
                raise ValueError(f"accepted: a number of at most {LARGEST:g}")
            above_0 = annotated_types.Gt(0) in cls.model_fields[info.field_name or ""].metadata
            if above_0 and value < SMALLEST:  # methods may divide by it
                raise ValueError(f"accepted: a number of at least {SMALLEST:g}")
        return value


def tried(*values: str | float | bool) -> dict[str, Any]:
    """Return the field metadata for tuning: `mu: float = Field(0.01, ge=0, json_schema_extra=tried(0.1, 0.01))`."""
    return {_TRIED: list(values)}


def values_to_try(info: FieldInfo) -> tuple[Any, ...]:
    """Return the values that tuning tries for a field; empty for most fields."""
    extra = info.json_schema_extra
    found = extra.get(_TRIED) if isinstance(extra, dict) else None
    return tuple(found) if isinstance(found, list) else ()


def one_or_several(*words: str, alone: str = "") -> Callable[[Any], Any]:
    """Return a validator that runs before pydantic's and accepts one word, a list of words, or text with commas.

    A single word stays a string. `alone` is one more word, which is not allowed in a list.
    """

    def read(value: Any) -> Any:
        if alone and value == alone:
            return value
        given = value.split(",") if isinstance(value, str) else value
        if not isinstance(given, list | tuple) or not all(isinstance(word, str) for word in given):
            given = ()
        chosen = tuple(word.strip() for word in given)
        if not chosen or len(set(chosen)) < len(chosen) or not set(chosen) <= set(words):
            others = f"{alone}; " if alone else ""
            raise ValueError(f"accepted: {others}{' | '.join(words)}, or a list of them, each once")
        return chosen[0] if len(chosen) == 1 else chosen

    return read


# -------- Checks and error messages


_KINDS: dict[Any, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


S = TypeVar("S", bound=Section)
T = TypeVar("T")


def checked(section: type[S], values: Mapping[str, object], where: str) -> S:
    """Return the section with these values; raise `MotetError` about the first that is not accepted."""
    try:
        return section.model_validate(dict(values))
    except ValidationError as error:
        raise MotetError(f"{where}: {refusal(error, section)}") from None
    except OverflowError:  # an integer too large for a float
        raise MotetError(f"{where}: a number has hundreds of digits; accepted: fewer") from None


def section_of(info: FieldInfo) -> type[Section] | None:
    """Return the section class of a field, or None if it is a plain field."""
    kind = info.annotation
    return kind if isinstance(kind, type) and issubclass(kind, Section) else None


def dotted_fields(model: type[Section], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Yield every plain field of a model and of its sections, with its dotted name."""
    for name, info in model.model_fields.items():
        inner = section_of(info)
        if inner is None:
            yield prefix + name, info
        else:
            yield from dotted_fields(inner, f"{prefix}{name}.")


def accepted(info: FieldInfo) -> str:
    """Return what a field accepts in words, such as "a whole number of at least 1"."""
    inner = section_of(info)
    if inner is not None:
        return "a section with " + ", ".join(inner.model_fields)
    bounds = " and ".join(filter(None, map(_bound, info.metadata)))
    return _kind(info.annotation) + (f" {bounds}" if bounds else "") + _absence(info.annotation)


def refusal(error: ValidationError, model: type[Section]) -> MotetError:
    """Return pydantic's first error as one sentence with the dotted field, the value and what is accepted."""
    first = error.errors()[0]
    path = [str(part) for part in first["loc"]]
    if first["type"] == "extra_forbidden":
        return _unknown_field(path, model)
    path = _of_field(path, model)
    info = _find(path, model)
    if info is None:
        return MotetError(f"{'.'.join(path) or 'the experiment'}: {first['msg']}")
    name, value = ".".join(path), first["input"]
    if first["type"] == "missing":
        return MotetError(f"{name} is missing; accepted: {accepted(info)}")
    if first["type"] in ("value_error", "assertion_error"):  # raised by a validator of the section
        return MotetError(f"{name} is {shown(value)}; {first['ctx']['error']}")
    if (inner := section_of(info)) is not None:
        return _no_section(name, value, inner, accepted(info))
    return MotetError(f"{name} is {shown(value)}; accepted: {accepted(info)}")


def _no_section(name: str, value: object, section: type[Section], accepted: str) -> MotetError:
    """Return the error about a single value for a whole section, and suggest the first field that accepts it."""
    if isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        return MotetError(f"{name} is a list of tables, as [[{name}]] makes one; accepted: [{name}], {accepted}")
    near = next((field for field in section.model_fields if _takes(section, field, value)), None)
    hint = f": did you mean {name}.{near}?" if near else ";"
    return MotetError(f"{name} is {shown(value)}{hint} accepted: {accepted}")


def _takes(section: type[Section], field: str, value: object) -> bool:
    try:
        section.model_validate({field: value}, strict=True)
    except ValidationError:
        return False
    return True


def _unknown_field(path: list[str], model: type[Section]) -> MotetError:
    *sections, name = path
    if not sections:
        for dotted, _ in dotted_fields(model):
            if dotted == name:
                return MotetError(f"unknown field {name!r} in quotes; accepted: {name}, without them")
            if dotted.endswith(f".{name}"):
                return MotetError(f"unknown field {name!r}: did you mean {dotted!r}?")
        return unknown("field", name, [*model.model_fields, *model.short_names])
    info = _find(sections, model)
    inner = section_of(info) if info else None
    return unknown(f"field in [{'.'.join(sections)}]", name, inner.model_fields if inner else ())


def _find(path: list[str], model: type[Section]) -> FieldInfo | None:
    info = None
    inner: type[Section] | None = model
    for name in path:
        info = inner.model_fields.get(name) if inner else None
        inner = section_of(info) if info else None
    return info


def _of_field(path: list[str], model: type[Section]) -> list[str]:
    """Return the path up to a plain field, without the union member that pydantic appends."""
    for length in range(1, len(path)):
        info = _find(path[:length], model)
        if info is not None and section_of(info) is None:
            return path[:length]
    return path


def _kind(annotation: Any) -> str:
    if get_origin(annotation) is Annotated:
        plain, *limits = get_args(annotation)
        words = [w for info in limits for limit in getattr(info, "metadata", [info]) if (w := _bound(limit))]
        return _kind(plain) + (f" {' and '.join(words)}" if words else "")
    if get_origin(annotation) is Literal:
        return " | ".join(map(str, get_args(annotation)))
    if get_origin(annotation) in (UnionType, Union):
        return " or ".join(_kind(part) for part in get_args(annotation) if part is not NoneType)
    if get_origin(annotation) in (list, tuple):
        return "a list of " + " or ".join(_kind(p) for p in get_args(annotation) if p is not Ellipsis)
    return _KINDS.get(annotation, str(annotation))


def _absence(annotation: Any) -> str:
    return ", or left out" if NoneType in get_args(annotation) else ""


def _bound(limit: Any) -> str | None:
    match limit:
        case annotated_types.Ge(ge=low):
            return f"of at least {low}"
        case annotated_types.Gt(gt=low):
            return f"above {low}"
        case annotated_types.Le(le=high):
            return f"of at most {high}"
        case annotated_types.Lt(lt=high):
            return f"below {high}"
        case annotated_types.MinLen(min_length=1):
            return "that is not empty"
    return None
