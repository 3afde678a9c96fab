"""The Python interface: objects of every type where names, numbers and paths belong."""

import random
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fuzz_judge import Case, run_in_python
from fuzz_values import a_name

import motet
from motet.config.short_names import FIELDS


class Colour(Enum):
    """An object that is no number."""

    RED = 1


class Unshowable:
    """An object that cannot even be shown."""

    def __repr__(self) -> str:
        raise ZeroDivisionError

    __str__ = __repr__


def _itself() -> dict[str, Any]:
    endless: dict[str, Any] = {}
    endless["a"] = endless
    return endless


def _deep() -> list[Any]:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    return deep


OBJECTS: list[Any] = [
    0, -1, 1.5, True, 10**30, 10**5000, float("nan"), float("inf"), 1e308, 1e-320, 1j, "", "x", "\x00", "\ud800",
    "a" * 10**6, b"digits", b"\xff", (), [], {}, set(), {1: 2}, {(1, 2): 3}, [None], object(), object, len, Colour.RED,
    Decimal("0.1"), Unshowable(), _itself(), _deep(), np.int64(1), np.float32(0.5), np.nan, np.zeros(3),
    np.zeros((300, 300)), torch.zeros(2), torch.tensor(1.0), (np.zeros((90, 4)), np.zeros(90)), range(3), iter([1]),
    Path("x.npz"), Path("~nosuchuser/x"), Path("/dev/zero"), np.array("digits"), np.array(None), Exception("x"), ...,
    {"x": np.zeros(3)}, {"name": "digits", "clients": np.zeros(3)}, [[0.1] * 10_000], "/" + "a" * 300, "a/" * 3000,
]  # fmt: skip
LONG = {"rounds", "epochs", "rounds.count", "local.epochs", "local.steps", "adapt.epochs"}
TINY: dict[str, Any] = {
    "rounds": 1, "clients": 4, "epochs": 1, "subset": 0.2, "partition": "iid",
    "set": {"engine.name": "inline", "adapt.epochs": 1},
}  # fmt: skip


def python_case(rng: random.Random, folder: Path) -> Case:
    """One call."""
    number = rng.randrange(len(OBJECTS))
    value = OBJECTS[number]
    kind = rng.random()
    label = f"{type(value).__name__} (object {number})"
    if kind < 0.15:
        look = rng.choice([motet.load, motet.resume])
        return Case(f"{look.__name__}({label})", lambda: look(value), "refuse")
    if kind < 0.55:
        name = rng.choice([*FIELDS, "experiment", "set", *(["out"] if _is_no_path(value) else [])])
        keywords = {**TINY, name: value}
    else:
        name = a_name(rng)
        keywords = {**TINY, "set": {**TINY["set"], name: value}} if rng.random() < 0.5 else {**TINY, name: value}
    if name in LONG and isinstance(value, int | float):
        value = -1
        keywords = {**TINY, name: value}
    return Case(f"run {name} = {label}", lambda: run_in_python(**keywords))


def _is_no_path(value: Any) -> bool:
    return not isinstance(value, str | Path) or value in ("", "\x00", "\ud800")
