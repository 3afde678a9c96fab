"""Short names of fields as keywords of functions; the signatures are made from the one table of short names."""

import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from motet.config.nesting import nest
from motet.config.short_names import CHOICES, FIELDS, choose
from motet.data.readers.in_memory import handed_over
from motet.errors import MotetError, shown
from motet.io.user_paths import user_path

if TYPE_CHECKING:
    from motet.config.experiment import Experiment

AnyPath = str | Path
F = TypeVar("F", bound=Callable[..., Any])

IN_MEMORY_TOO = ("data", "client", "domain", "leave_out", "schema", "data_dir")
"""Short names that take more in Python than text: arrays, tables, paths."""


def with_choices(names: Iterable[str]) -> Callable[[F], F]:
    """Return a decorator that shows these short names as keywords of a function that takes **choices."""

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        own = list(signature.parameters.values())
        *before, last = own
        assert last.kind is inspect.Parameter.VAR_KEYWORD
        made = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_annotation(name))
            for name in names
        ]
        positional = [p for p in before if p.kind is p.POSITIONAL_OR_KEYWORD]
        keywords = [p for p in before if p.kind is p.KEYWORD_ONLY]
        shown_ones = [*positional, *made, *keywords, last]
        function.__signature__ = signature.replace(parameters=shown_ones)  # type: ignore[attr-defined]
        return function

    return decorate


def _annotation(name: str) -> Any:
    return Any if name in IN_MEMORY_TOO else CHOICES[name].kind | None


@contextmanager
def chosen(choices: Mapping[str, Any], file: AnyPath | None, set: Mapping[str, Any] | None) -> Iterator["Experiment"]:
    """Yield the experiment of these keywords, short and dotted, over a file; data in memory are in a file meanwhile."""
    short = {name: choices.get(name) for name in FIELDS}
    beside = [nest({name: value}) for name, value in choices.items() if name not in FIELDS]
    settings = [nest({name: value}) for name, value in _dotted(set).items()]
    path = None if file is None else user_path(file, "experiment file")
    with _named(short) as named:
        yield choose(named, path, *settings, beside=beside)


@contextmanager
def _named(short: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the choices with a file name in the place of data in memory, which are in that file meanwhile."""
    data = short["data"]
    if data is None or isinstance(data, str | os.PathLike) or _is_section(data):
        yield short
        return
    with handed_over(data, short["client"], short["domain"]) as handed:
        yield {**short, "data": handed.name, "client": handed.client, "domain": handed.domain}


def _is_section(data: object) -> bool:
    """Return whether the value has the fields of an experiment's [data] section."""
    return isinstance(data, Mapping) and "x" not in data


def _dotted(values: object) -> Mapping[str, Any]:
    """Return `set` if it is a mapping; raise a MotetError for a Python set and the like."""
    if values is None:
        return {}
    if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
        raise MotetError(
            f'set is {shown(values)}; accepted: a dictionary by dotted names, such as {{"local.momentum": 0.5}}'
        )
    return values
