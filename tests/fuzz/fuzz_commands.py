"""Command lines: words in every order, methods and partitions that nearly make sense, options at their limits."""

import os
import random
from collections.abc import Iterator
from functools import partial
from itertools import count, product
from pathlib import Path
from typing import Any
from unittest.mock import patch

from fuzz_judge import Case, command
from fuzz_values import WRONG, a_name, a_value

from motet.config.short_names import FIELDS
from motet.data.partitions.registry import PARTITIONS
from motet.methods.registry import METHODS

TINY = [
    "--rounds", "1", "--clients", "4", "--epochs", "1", "--subset", "0.2", "--partition", "iid", "--cohort", "0.5",
    "--set", "engine.name=inline", "--set", "adapt.epochs=1",
]  # fmt: skip
NUMBERS = ["0", "1", "2", "-1", "0.5", "1e20", "-1e20", "1e-15", "1e21", "1e308", "nan", "inf", "1000000000", "9" * 30]
LIMITS = ("1e20", "1e-15", "0")
WORDS = ["x", "", "none", "None", "true", "'", "(", "[1]", "full", "head", "ce", "auto"]
COMMANDS = ["run", "resume", "show", "list", "data", "config", "demo ", "", "--help", "--version", "-x", "nonsense"]
COMMANDS += ["report", "figures", "export", "predict", "adapt", "measure", "bench"]
COLUMNS = ("0", "1", "80", "-1", "x", "1000000000", "9" * 30)
SHORT_RUN = {"rounds", "epochs", "clients", "subset"}  # a large one is right, and takes as long as it takes


def command_case(rng: random.Random, folder: Path) -> Case:
    """One command line."""
    kind = rng.random()
    if kind < 0.35:
        return _run(rng, folder, ["--method", _method(rng)])
    if kind < 0.5:
        return _run(rng, folder, ["--partition", _partition(rng), "--clients", rng.choice(["1", "4", "7"])])
    if kind < 0.7:
        return _run(rng, folder, _flags(rng))
    if kind < 0.85:
        name = a_name(rng)
        value = a_value(rng, name)
        if FIELDS.get(name, name) in ("rounds.count", "local.steps") or "epochs" in name:
            value = rng.choice(["0", "1", "-1", "x", "1.5"])
        return _run(rng, folder, ["--set", f"{name}={value}"])
    words = [rng.choice(COMMANDS), *(_word(rng) for _ in range(rng.randint(0, 3)))]
    columns = rng.choice(COLUMNS)
    return Case(f"command {words} in {columns} columns", partial(_in_columns, columns, folder, words))


def _in_columns(columns: str, folder: Path, words: list[str]) -> str:
    """In a window of that width, beside a pipe that nobody reads."""
    if not (folder / "pipe").exists():
        os.mkfifo(folder / "pipe")
    with patch.dict(os.environ, {"COLUMNS": columns}):
        return command(*words)


def _run(rng: random.Random, folder: Path, words: list[str]) -> Case:
    out = str(folder / f"run-{rng.randrange(10**9)}")
    new = (
        ["--new-clients", "0.25", "--rounds", "2"] if rng.random() < 0.5 else []
    )  # served, and what comes after round 1
    return Case(f"run {words}"[:500], lambda: command("run", *TINY, *new, *words, "--out", out, "--json"))


def _method(rng: random.Random) -> str:
    """A sum of one to three names with options, sometimes damaged."""
    terms = []
    for name in rng.sample(list(METHODS), rng.choice([1, 1, 1, 2, 3])):
        options: dict[str, Any] = {}
        for option in rng.sample(list(METHODS[name].options.model_fields), min(rng.randint(0, 2), _many(name))):
            few = option.endswith("epochs")  # a large number is right, and takes as long as it takes
            options[option] = rng.choice(["0", "1", "-1", "x", "1.5"] if few else NUMBERS + WORDS)
        terms.append(f"{name}({', '.join(f'{o}={v}' for o, v in options.items())})" if options else name)
    text = "+".join(terms)
    if rng.random() < 0.2:
        at = rng.randrange(len(text))
        text = rng.choice([text[:at], text[:at] + rng.choice("()+=,:'\x00\n é") + text[at:], text * 50, text + "+"])
    return text


def _many(name: str) -> int:
    return len(METHODS[name].options.model_fields)


def _partition(rng: random.Random) -> str:
    name = rng.choice([*PARTITIONS, "dirichle", "", ":"])
    argument = rng.choice([*NUMBERS, "", "x", "1e-9", "1e9", "0.001", "9" * 400, "9" * 5000, "1:2", "²"])
    return f"{name}:{argument}" if rng.random() < 0.8 else name


def _flags(rng: random.Random) -> list[str]:
    words: list[str] = []
    for name in rng.sample(list(FIELDS), rng.randint(1, 3)):
        value = a_value(rng, name).strip("'")
        if name in SHORT_RUN:
            value = rng.choice(["0", "1", "-1", "x", "1.5", "0.5", "9" * 5000])
        words += [f"--{name.replace('_', '-')}", value]
    return words


def _word(rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.3:
        return rng.choice(
            ["methods", "nets", "data", "show", "--json", "--out", "--set", "--protocol", "x", "=", "--lr"]
        )
    if kind < 0.6:
        return rng.choice(WRONG).strip("'\"")
    return rng.choice(
        [
            "nowhere",
            ".",
            "/",
            "/dev/null",
            "pipe",
            "--out=pipe",
            "a" * 5000,
            "\x1b[31m",
            "\ud800",
            "~x/y",
            "--data=x",
            "digits",
        ]
    )


def cases_at_limits(folder: Path) -> Iterator[Case]:
    """Every number of every method at the largest and the smallest that is accepted, and so is the learning rate."""
    runs = count()
    for name, entry in METHODS.items():
        options = [
            (o, v) for o, info in entry.options.model_fields.items() if "float" in str(info.annotation) for v in LIMITS
        ]
        texts = [name, *(f"{name}({option}={value})" for option, value in options)]
        for text, lr in product(texts, ("1e20", "1e-15")):
            method = f"fedavg+{text}" if entry.wraps else text
            words = ["--method", method, "--lr", lr, "--rounds", "2", "--new-clients", "0.25", "--cohort", "1.0"]
            more = [] if "(" in text else ["--set", "local.momentum=0.9999999999999999", "--set", "adapt.lr=1e20"]
            out = str(folder / f"limit-{next(runs)}")
            yield Case(f"run {words}", partial(command, "run", *TINY, *words, *more, "--out", out, "--json"))
