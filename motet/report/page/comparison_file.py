"""comparison.json of a folder of `motet compare`, checked: a folder may come from anybody."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from motet.config.section import LARGEST
from motet.errors import MotetError
from motet.io import json_models
from motet.io.files import read_own
from motet.io.json_models import fitted

FILE = "comparison.json"
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


# ------------------------------------------------------------ the file


def _inside(run: str) -> str:
    path = PurePosixPath(run)
    if path.is_absolute() or ".." in path.parts or "\0" in run:
        raise ValueError("a run lies within the folder")
    return run


Text = Annotated[str, Field(max_length=MOST_TEXT)]
Number = Annotated[float, Field(ge=-LARGEST, le=LARGEST)]
Inside = Annotated[Text, AfterValidator(_inside)]


class _Part(BaseModel):
    """What the file says of one thing; more may stand there than a page shows."""

    model_config = ConfigDict(strict=True)


class _Scored(_Part):
    mean: Number | None = None
    interval: Annotated[list[Number], Field(min_length=2, max_length=2)] | None = None


class _Trial(_Part):
    options: Any = None
    score: Number | None
    rounds: Annotated[int, Field(ge=0)] | None = None
    failure: Text | None = None


class _Method(_Part):
    method: Text
    options: Any = None
    personal: _Scored | None = None
    generic: _Scored | None = None
    hurt_clients: list[Text] | None = None
    runs: list[Inside]
    trials: list[_Trial] | None = None


class _Recommended(_Part):
    method: Text = ""
    options: Any = None
    reason: Text = ""
    certain: bool | None = None
    enough_evidence: bool = True


class _File(_Part):
    format: Literal[1]
    methods: list[_Method]
    recommended: _Recommended | None = None
    notes: list[Text] | None = None
    left_out: dict[Text, Text] | None = None


# ------------------------------------------------------------ reading it


def is_comparison(folder: Path) -> bool:
    """Whether the folder is one of `motet compare`."""
    return (folder / FILE).exists()


def read_comparison(folder: Path) -> Comparison:
    """The file of the folder, or one sentence about what is wrong with it."""
    path = folder / FILE
    try:
        values = json_models.loads(read_own(path, MOST_BYTES))
    except OSError as error:
        raise MotetError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise MotetError(f"{path} is damaged ({error}); accepted: what `motet compare` wrote") from None
    return _comparison(fitted(_File, values, str(path)), folder)


def options_text(options: object) -> str:
    """Options in a line: lr = 0.1, mu = 0.01."""
    if isinstance(options, Mapping):
        return ", ".join(f"{name[:200]} = {_plain(value)}" for name, value in options.items())
    return _plain(options) if options else ""


def _comparison(file: _File, folder: Path) -> Comparison:
    named = file.recommended or _Recommended()
    return Comparison(
        tuple(_compared(each, folder) for each in file.methods),
        named.method,
        options_text(named.options),
        named.reason,
        named.certain,
        named.enough_evidence,
        tuple(file.notes or ()),
        tuple(f"{name}: {why}" for name, why in (file.left_out or {}).items()),
    )


def _compared(method: _Method, folder: Path) -> Compared:
    chosen = options_text(method.options)
    return Compared(
        method.method,
        chosen,
        _scored(method.personal),
        _scored(method.generic),
        None if method.hurt_clients is None else tuple(method.hurt_clients),
        tuple(folder / run for run in method.runs),
        tuple(_trial(each, chosen) for each in method.trials or ()),
    )


def _trial(trial: _Trial, chosen: str) -> Trial:
    options = options_text(trial.options)
    return Trial(options, trial.score, trial.rounds, options == chosen, trial.failure or "")


def _scored(found: _Scored | None) -> Scored | None:
    if found is None or found.mean is None:
        return None
    return Scored(found.mean, None if found.interval is None else (found.interval[0], found.interval[1]))


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)[:200]
