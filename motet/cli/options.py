"""Options that several commands share, and options for fields, made from the table of short names."""

import inspect
import re
from collections.abc import Callable, Iterable
from typing import Annotated, Any, TypeVar

import typer

from motet.config.short_names import CHOICES, Choice

MOST_DIGITS = 100  # digits of a number; Python refuses some thousands

C = TypeVar("C", bound=Callable[..., None])

Trust = Annotated[
    bool, typer.Option("--trust-code", help="run the Python code that it names, also if you did not run it before")
]
Json = Annotated[bool, typer.Option("--json", help="for programs: the last line of stdout is JSON")]


def number(text: str) -> int | float | str:
    """Return a number, or else the text itself, for which the experiment raises the field's own error.

    1 is a whole number and 1.0 is not: they mean different cohorts.
    """
    if re.fullmatch(r"\s*[+-]?\d+\s*", text, re.ASCII):
        return int(text) if len(text) <= MOST_DIGITS else text
    try:
        return float(text) if text.isascii() else text
    except ValueError:
        return text


def with_choices(names: Iterable[str]) -> Callable[[C], C]:
    """Give a command that takes **short an option for each of these names, before its own."""

    def decorate(command: C) -> C:
        signature = inspect.signature(command)
        own = [p.replace(kind=p.KEYWORD_ONLY) for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        made = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_option(name, CHOICES[name])
            )
            for name in names
        ]
        command.__signature__ = signature.replace(parameters=[*made, *own])  # type: ignore[attr-defined]
        command.__annotations__ |= {parameter.name: parameter.annotation for parameter in made}
        return command

    return decorate


def _option(name: str, choice: Choice) -> Any:
    if choice.kind is str:
        return Annotated[str | None, typer.Option(help=choice.help)]
    if choice.kind is bool:
        return Annotated[bool | None, typer.Option(f"--{name.replace('_', '-')}", help=choice.help)]
    if choice.kind == list[str]:
        return Annotated[list[str] | None, typer.Option(metavar="NAME", help=choice.help)]
    return Annotated[choice.kind | None, typer.Option(parser=number, metavar="NUMBER", help=choice.help)]
