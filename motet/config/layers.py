"""Turn one layer of choices (a file, flags, or `--set`) into nested values with full names."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from motet.config.experiment import Experiment
from motet.config.nesting import Values, nest
from motet.config.section import section_of
from motet.config.short_names import FIELDS
from motet.errors import MotetError, shown

Path = tuple[str, ...]
IN_MEMORY = (
    "data is {what} in memory; accepted: a name of `motet list data`, FILE.npz, FOLDER/ or FILE.py:source (save "
    "arrays with numpy.savez('FILE.npz', x=x, y=y))"
)


@dataclass(frozen=True)
class _Choice:
    """One choice: the field as the user wrote it, its full path, and its value."""

    spelled: str
    path: Path
    value: Any


def one_layer(choices: Iterable[Mapping[str, Any]], origin: str) -> Values:
    """Return the choices of one layer as nested dictionaries; raise if two spellings of a field disagree."""
    found: dict[Path, _Choice] = {}
    for values in choices:
        for choice in _spelled_out(values):
            _refuse_objects(choice)
            before = found.get(choice.path)
            if before and before.spelled != choice.spelled and not _same(before.value, choice.value):
                raise MotetError(
                    f"{origin} says {before.spelled} = {shown(before.value)} and {choice.spelled} = "
                    f"{shown(choice.value)}, which are the same field; accepted: one of them"
                )
            found[choice.path] = choice
    # deepest first: a value for a whole section (local = 0.5) comes last and stays, so that it is refused later
    return nest({c.path: c.value for c in sorted(found.values(), key=lambda choice: -len(choice.path))})


def _spelled_out(values: Mapping[str, Any]) -> Iterator[_Choice]:
    """Yield every choice with its full path; a value of None is skipped."""
    for name, value in values.items():
        info = Experiment.model_fields.get(name)
        section = section_of(info) if info else None
        if value is None:
            continue
        if name == "data":
            _refuse_arrays(value)
        if section is not None and isinstance(value, Mapping):
            for field, inner in value.items():
                if inner is not None:
                    yield _Choice(f"{name}.{field}", (name, field), inner)
        elif name in FIELDS and not _is_tables(value):
            yield _Choice(name, tuple(FIELDS[name].split(".")), value)
        else:  # a plain field, or one that the experiment refuses
            yield _Choice(name, (name,), value)


def _refuse_arrays(value: Any) -> None:
    """Raise if `data` is an array or holds arrays: it must be a name or a path."""
    inside = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    if getattr(value, "shape", ()):
        raise MotetError(IN_MEMORY.format(what=f"a {type(value).__name__}"))
    if any(getattr(item, "shape", ()) for item in inside):
        raise MotetError(IN_MEMORY.format(what=f"a {type(value).__name__} of arrays"))


def _refuse_objects(choice: _Choice) -> None:
    """Raise for a value of any other type, which would otherwise be converted to text."""
    value = choice.value
    if not isinstance(value, str | int | float | list | tuple | Mapping | os.PathLike) and not hasattr(value, "tolist"):
        raise MotetError(
            f"{choice.spelled} is {shown(value)}, a {type(value).__name__}; accepted: a number, text, true or false, "
            f"or a list of them"
        )


def _is_tables(value: Any) -> bool:
    return isinstance(value, list | tuple) and any(isinstance(item, Mapping) for item in value)


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and shown(a) == shown(b) and bool(a == b)
