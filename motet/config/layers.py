"""One layer of choices: a file, the flags of a command, its settings. Short names are spelled out, nothing is lost."""

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
    """A field, as it was spelled, and what it shall be."""

    spelled: str
    path: Path
    value: Any


def one_layer(choices: Iterable[Mapping[str, Any]], origin: str) -> Values:
    """Choices of one rank as nested dictionaries; a field that two spellings set differently is refused."""
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
    # the deepest first: what gives a value to a whole section, local = 0.5, comes last and stays, to be refused
    return nest({c.path: c.value for c in sorted(found.values(), key=lambda choice: -len(choice.path))})


def _spelled_out(values: Mapping[str, Any]) -> Iterator[_Choice]:
    """Every choice with its full name; one of None is no choice."""
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
        else:  # a plain field, or what the experiment refuses
            yield _Choice(name, (name,), value)


def _refuse_arrays(value: Any) -> None:
    """Data are named, not handed over."""
    inside = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    if getattr(value, "shape", ()):
        raise MotetError(IN_MEMORY.format(what=f"a {type(value).__name__}"))
    if any(getattr(item, "shape", ()) for item in inside):
        raise MotetError(IN_MEMORY.format(what=f"a {type(value).__name__} of arrays"))


def _refuse_objects(choice: _Choice) -> None:
    """What is neither number nor text would become one, for anything can be shown."""
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
