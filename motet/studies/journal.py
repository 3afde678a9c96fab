"""The journal of a tuning: which settings were drawn and how they were judged, so that a killed study decides alike."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import Field

from motet.errors import MotetError
from motet.io.files import append_lines, open_own, read_own, truncate
from motet.io.json_models import FileModel, loads_object
from motet.studies.folder import Number, Options

MOST_BYTES = 2**26


class Drawn(FileModel):
    """A line of the journal with a trial's setting; its values are checked when the experiment is built from it."""

    trial: int = Field(ge=0)
    options: Options


class Judged(FileModel):
    """A line of the journal with a trial's score at a rung."""

    trial: int = Field(ge=0)
    round: int = Field(ge=0)
    score: Number | None
    loss: Number | None
    failure: str | None


Line = TypeVar("Line", Drawn, Judged)


@dataclass(frozen=True)
class Journal:
    """trials.jsonl, which only grows; half a line of a process that was killed is cut off before the next one."""

    path: Path

    def lines(self) -> list[Drawn | Judged]:
        """Return what was written so far."""
        try:
            data = read_own(self.path, MOST_BYTES)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise MotetError(f"cannot read {self.path}: {error.strerror}") from error
        whole = data[: data.rfind(b"\n") + 1]
        return [_checked(line, f"line {i} of {self.path}") for i, line in enumerate(whole.splitlines(), 1)]

    def ensure(self, known: list[Drawn | Judged], line: Line) -> Line:
        """Return the next line: the first known one, which must be of the same kind, or this one, which is written."""
        if known:
            before = known.pop(0)
            if not isinstance(before, type(line)) or before.trial != line.trial:
                raise self.of_another_tuning()
            return before
        self._cut_half_a_line()
        append_lines(self.path, [line.model_dump()])
        return line

    def of_another_tuning(self) -> MotetError:
        """Return the error for a journal whose lines are not what this tuning would write."""
        return MotetError(f"{self.path} is of another tuning; choose another --out")

    def _cut_half_a_line(self) -> None:
        if not self.path.exists():
            return
        with os.fdopen(open_own(self.path, os.O_RDONLY), "rb") as file:
            data = file.read()
        if not data.endswith(b"\n") and data:
            truncate(self.path, data.rfind(b"\n") + 1)


def _checked(line: bytes, where: str) -> Drawn | Judged:
    if "options" in loads_object(line, where):
        return Drawn.from_json(line, where)
    return Judged.from_json(line, where)
