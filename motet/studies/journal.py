"""The journal of a tuning: plain lines of JSON, one per trial and one per score, in the order they were decided."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from motet import plain_json
from motet.errors import MotetError
from motet.fields import fitted
from motet.files import append_lines, open_own, read_own, to_json, truncate
from motet.settings import LARGEST

MOST_BYTES = 2**26


class Drawn(BaseModel):
    """A trial's setting. Which values an option may have the experiment says, when it is put together."""

    model_config = ConfigDict(strict=True)
    trial: int = Field(ge=0)
    options: dict[str, str | int | float | bool]


class Judged(BaseModel):
    """How a trial did at a rung."""

    model_config = ConfigDict(strict=True)
    trial: int = Field(ge=0)
    round: int = Field(ge=0)
    score: float | None = Field(ge=-LARGEST, le=LARGEST)
    failure: str | None


@dataclass(frozen=True)
class Journal:
    """A file that only grows; a half line of a process that was killed is cut off before the next one."""

    path: Path

    def lines(self) -> list[dict[str, Any]]:
        """What was written so far."""
        try:
            data = read_own(self.path, MOST_BYTES)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise MotetError(f"cannot read {self.path}: {error.strerror}") from error
        whole = data[: data.rfind(b"\n") + 1]
        return [_checked(line, f"line {i} of {self.path}") for i, line in enumerate(whole.splitlines(), 1)]

    def ensure(self, known: list[dict[str, Any]], line: Mapping[str, Any]) -> dict[str, Any]:
        """The next line: the one that is there already, or this one, which is written."""
        if known:
            return known.pop(0)
        self._cut_half_a_line()
        append_lines(self.path, [line])
        written: dict[str, Any] = plain_json.loads(to_json(line).encode())
        return written

    def _cut_half_a_line(self) -> None:
        if not self.path.exists():
            return
        with os.fdopen(open_own(self.path, os.O_RDONLY), "rb") as file:
            data = file.read()
        if not data.endswith(b"\n") and data:
            truncate(self.path, data.rfind(b"\n") + 1)


def _checked(line: bytes, where: str) -> dict[str, Any]:
    found = plain_json.loads_object(line, where)
    fitted(Drawn if "options" in found else Judged, found, where)
    return found
