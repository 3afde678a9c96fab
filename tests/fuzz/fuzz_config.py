"""Experiment files: fields in every spelling with every kind of value, and whole files with damage."""

import random
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fuzz_judge import Case
from fuzz_values import WRONG, a_name, a_value

from motet.config.experiment import Experiment, commented_template
from motet.config.short_names import FIELDS, choose


def config_case(rng: random.Random, folder: Path) -> Case:
    """One file."""
    kind = rng.random()
    if kind < 0.65:
        data = _fields(rng).encode()
    elif kind < 0.9:
        data = _damaged(rng)
    else:
        data = rng.choice(_SPECIAL)
    file = folder / "e.toml"

    def attempt() -> Experiment:
        file.write_bytes(data)
        return choose({}, file)

    return Case(f"config {data[:300]!r}", attempt, holds=lambda found: _dropped(data, found))


def _fields(rng: random.Random) -> str:
    """Some assignments, in tables or with dots."""
    lines, tables = [], []
    for _ in range(rng.randint(1, 4)):
        name = a_name(rng)
        value = a_value(rng, name)
        section, dot, last = name.partition(".")
        if dot and rng.random() < 0.5:
            brackets = "[[{}]]" if rng.random() < 0.1 else "[{}]"
            tables.append(f"{brackets.format(section)}\n{last} = {value}")
        else:
            lines.append(f"{name} = {value}")
    return "\n".join(lines + tables)


def _damaged(rng: random.Random) -> bytes:
    """A complete file with a few bytes changed, or lines moved."""
    data = bytearray(commented_template().encode())
    for _ in range(rng.randint(1, 5)):
        at = rng.randrange(len(data))
        match rng.randrange(5):
            case 0:
                data[at] = rng.randrange(256)
            case 1:
                del data[at : at + rng.randint(1, 40)]
            case 2:
                data[at:at] = rng.choice(WRONG).encode()
            case 3:
                data[at:at] = bytes(rng.randrange(256) for _ in range(3))
            case 4:
                lines = bytes(data).split(b"\n")
                rng.shuffle(lines)
                data = bytearray(b"\n".join(lines))
    return bytes(data)


_SPECIAL = [
    b"",
    b"\xef\xbb\xbfrounds = 2",
    b"\xff\xfe",
    b"\x00",
    b"# only words",
    b"a." * 3000 + b"b = 1",
    b"a = " + b"[" * 5000 + b"]" * 5000,
    b"a = " + b"{b = " * 500 + b"1" + b"}" * 500,
    b"[" + b"a." * 500 + b"b]\nc = 1",
    b"rounds = 2\n" * 3,
    b"x = 1\n" * 200_000,
    b"#" * 2_000_000,
    b"rounds = 2\n[rounds]\ncount = 3",
    b"lr = 0.1\n[local]\nlr = 0.2",
    b"[local]\nlr = 0.1\n[local]\nlr = 0.2",
    b"[[data]]\nname = 'a'\n[[data]]\nname = 'b'",
    b"local = 0.5",
    b"[data.name]\nx = 1",
    b"[local.lr]\nx = 1",
]


def _dropped(data: bytes, found: Experiment) -> str | None:
    """Whatever is in an accepted file is what the experiment has: the first that is not."""
    written = tomllib.loads(data.decode())
    for path, value in _leaves(written):
        dotted = FIELDS.get(path[0], path[0]).split(".") if len(path) == 1 else path
        have: Any = found
        for name in dotted:
            have = getattr(have, name)
        same = have == value or (isinstance(value, str | list) and str(have) == str(value))
        if not same and not (isinstance(have, tuple) and list(have) == value):
            return f"{'.'.join(path)} = {value!r} was dropped: the experiment has {have!r}"
    return None


def _leaves(values: Mapping[str, Any], path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    return [
        leaf
        for name, value in values.items()
        for leaf in (_leaves(value, (*path, name)) if isinstance(value, Mapping) else [((*path, name), value)])
    ]
