"""The fields of a section in words: what each accepts, and what is wrong with a refused value."""

from collections.abc import Iterator, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import annotated_types
from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from motet.errors import MotetError, shown, unknown
from motet.settings import Section

_KINDS: dict[Any, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}


S = TypeVar("S", bound=Section)
T = TypeVar("T")


def checked(section: type[S], values: Mapping[str, object], where: str) -> S:
    """The section with these values, or one sentence about the first that does not fit."""
    try:
        return section.model_validate(dict(values))
    except ValidationError as error:
        raise MotetError(f"{where}: {refusal(error, section)}") from None
    except OverflowError:  # a whole number where a number belongs, but larger than any
        raise MotetError(f"{where}: a number has hundreds of digits; accepted: fewer") from None


def fitted(kind: type[T], value: object, where: str, **context: object) -> T:
    """What a file of Motet's own says, as the model of it; a file may be damaged or anybody's, then one sentence."""
    try:
        return TypeAdapter(kind).validate_python(value, context=context)
    except ValidationError as error:
        first = error.errors()[0]
    name = ".".join(map(str, first["loc"])) or "it"
    why = "is missing" if first["type"] == "missing" else f"is {shown(first['input'])}"
    raise MotetError(f"{where} is damaged: {name} {why}; accepted: what Motet wrote ({first['msg']})")


def section_of(info: FieldInfo) -> type[Section] | None:
    """The section that a field holds, if it holds one."""
    kind = info.annotation
    return kind if isinstance(kind, type) and issubclass(kind, Section) else None


def dotted_fields(model: type[Section], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Every plain field of a model and of its sections, with its dotted name."""
    for name, info in model.model_fields.items():
        inner = section_of(info)
        if inner is None:
            yield prefix + name, info
        else:
            yield from dotted_fields(inner, f"{prefix}{name}.")


def accepted(info: FieldInfo) -> str:
    """What a field accepts, such as "a whole number of at least 1"."""
    inner = section_of(info)
    if inner is not None:
        return "a section with " + ", ".join(inner.model_fields)
    bounds = " and ".join(filter(None, map(_bound, info.metadata)))
    return _kind(info.annotation) + (f" {bounds}" if bounds else "") + _absence(info.annotation)


def refusal(error: ValidationError, model: type[Section]) -> MotetError:
    """The first complaint of pydantic as one sentence with the dotted field, the value and what is accepted."""
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
    if first["type"] in ("value_error", "assertion_error"):  # a check of the section's own
        return MotetError(f"{name} is {shown(value)}; {first['ctx']['error']}")
    if (inner := section_of(info)) is not None:
        return _no_section(name, value, inner, accepted(info))
    return MotetError(f"{name} is {shown(value)}; accepted: {accepted(info)}")


def _no_section(name: str, value: object, section: type[Section], accepted: str) -> MotetError:
    """One value where a whole section belongs, with the first of its fields that would take it."""
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
    """The path up to a plain field: pydantic goes on with the member of its union that it tried first."""
    for length in range(1, len(path)):
        info = _find(path[:length], model)
        if info is not None and section_of(info) is None:
            return path[:length]
    return path


def _kind(annotation: Any) -> str:
    if get_origin(annotation) is Annotated:
        plain, *limits = get_args(annotation)
        words = [w for info in limits for limit in getattr(info, "metadata", [info]) if (w := _bound(limit))]
        return " ".join([_kind(plain), *words])
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
