"""comparison.json of a folder of `motet compare`, checked: a folder may come from anybody."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from motet import plain_json
from motet.errors import MotetError
from motet.files import read_own

FILE = "comparison.json"
FORMAT = 1
MOST_BYTES = 2**25
MOST_TEXT = 4096


@dataclass(frozen=True)
class Scored:
    """A mean over clients and seeds, and the interval about it."""

    mean: float
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Trial:
    """One try of the tuner."""

    options: str
    score: float | None  # None where it failed
    rounds: int | None
    chosen: bool
    failure: str


@dataclass(frozen=True)
class Compared:
    """A method of the comparison: what was chosen for it, what came out, and what was tried."""

    method: str
    options: str
    personal: Scored | None
    generic: Scored | None
    hurt_clients: tuple[str, ...] | None  # than alone; None where nobody trained alone
    runs: tuple[Path, ...]
    trials: tuple[Trial, ...]


@dataclass(frozen=True)
class Comparison:
    """The whole file; `recommended` is empty where no method is named."""

    methods: tuple[Compared, ...]
    recommended: str
    recommended_options: str
    reason: str
    certain: bool | None
    enough_evidence: bool
    notes: tuple[str, ...]
    left_out: tuple[str, ...]


def is_comparison(folder: Path) -> bool:
    """Whether the folder is one of `motet compare`."""
    return (folder / FILE).exists()


def read_comparison(folder: Path) -> Comparison:
    """The file of the folder, or one sentence about what is wrong with it."""
    path = folder / FILE
    try:
        return _comparison(plain_json.loads(read_own(path, MOST_BYTES)), folder)
    except OSError as error:
        raise MotetError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        why = f"no {error}" if isinstance(error, KeyError) else str(error)[:120]
        raise MotetError(f"{path} is damaged ({why}); accepted: what `motet compare` wrote") from None


def options_text(options: object) -> str:
    """Options in a line: lr = 0.1, mu = 0.01."""
    if isinstance(options, Mapping):
        return ", ".join(f"{name} = {_plain(value)}" for name, value in options.items())
    return _plain(options) if options else ""


def _comparison(values: Any, folder: Path) -> Comparison:
    if values["format"] != FORMAT:
        raise ValueError(f"format is {str(values['format'])[:20]!r}, not {FORMAT}")
    named = values.get("recommended") or {}
    return Comparison(
        tuple(_compared(each, folder) for each in values["methods"]),
        _text(named.get("method", "")),
        options_text(named.get("options")),
        _text(named.get("reason", "")),
        named.get("certain") if isinstance(named.get("certain"), bool) else None,
        named.get("enough_evidence") is not False,
        tuple(_text(note) for note in values.get("notes") or []),
        tuple(f"{_text(name)}: {_text(why)}" for name, why in (values.get("left_out") or {}).items()),
    )


def _compared(values: Any, folder: Path) -> Compared:
    chosen = options_text(values.get("options"))
    return Compared(
        _text(values["method"]),
        chosen,
        _scored(values.get("personal")),
        _scored(values.get("generic")),
        None if values.get("hurt_clients") is None else tuple(map(_text, values["hurt_clients"])),
        tuple(_inside(folder, run) for run in values["runs"]),
        tuple(_trial(each, chosen) for each in values.get("trials") or []),
    )


def _trial(values: Any, chosen: str) -> Trial:
    options, rounds = options_text(values.get("options")), values.get("rounds")
    score = None if values["score"] is None else _number(values["score"])
    count = rounds if type(rounds) is int else None
    return Trial(options, score, count, options == chosen, _text(values.get("failure") or ""))


def _scored(values: Any) -> Scored | None:
    if values is None or values.get("mean") is None:
        return None
    interval = values.get("interval")
    if interval is None:
        return Scored(_number(values["mean"]))
    low, high = interval
    return Scored(_number(values["mean"]), (_number(low), _number(high)))


def _inside(folder: Path, run: object) -> Path:
    """A run of the comparison lies within its folder."""
    path = PurePosixPath(_text(run))
    if path.is_absolute() or ".." in path.parts:
        raise ValueError("a run outside of the folder")
    return folder / path


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{str(value)[:20]!r} is no number")
    return float(value)


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > MOST_TEXT:
        raise ValueError(f"{str(value)[:20]!r} is no short text")
    return value


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)[:200]
