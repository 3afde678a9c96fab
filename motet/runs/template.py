"""A commented experiment file, made from the sections themselves so that it never goes stale."""

import textwrap
from collections.abc import Iterator
from typing import Any

from motet.fields import accepted, section_of
from motet.runs import toml_text
from motet.settings import Section

_HEAD = """\
A complete experiment of Motet. Every line may be left out.
What counts: the defaults, over them the preset of `protocol`, over it this file, over it the command line.
A preset cannot change a value that is written here: delete the lines that it shall decide."""


def commented(section: Section) -> str:
    """Every field with its meaning, what it accepts and its present value, as TOML."""
    return "\n".join([*(f"# {line}" for line in _HEAD.splitlines()), "", *_lines(section, "")]).rstrip() + "\n"


def _lines(section: Section, prefix: str) -> Iterator[str]:
    inner: list[tuple[str, Section]] = []
    for name, info in type(section).model_fields.items():
        value = getattr(section, name)
        if section_of(info) is not None:
            inner.append((prefix + name, value))
            continue
        yield from _comment(info.description or "")
        yield from _comment(f"accepted: {accepted(info)}")
        yield _assignment(name, value)
        yield ""
    for path, value in inner:
        yield f"[{path}]"
        yield from _comment((value.__doc__ or "").removeprefix(f"[{path}]: "))
        yield ""
        yield from _lines(value, f"{path}.")


def _assignment(name: str, value: Any) -> str:
    return f"# {name} =" if value is None else f"{name} = {toml_text.literal(value)}"


def _comment(text: str) -> list[str]:
    return textwrap.wrap(" ".join(text.split()), 110, initial_indent="# ", subsequent_indent="# ")
