"""The record of a run: one folder with the experiment, what happened in each round, and the results.

experiment.toml  environment.json  clients.json  rounds.jsonl  clients.jsonl  summary.json  figures_learned.json
checkpoint/  lock

Each file is written and read through one model: `Environment`, `ClientsInfo`, the lines of `motet/runs/rows.py`,
`Summary`, `LearnedFigure`. The folder may come from a stranger: links are not followed, and file sizes are limited.
"""

import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from motet.config import experiment as experiments
from motet.config.experiment import Experiment
from motet.errors import MotetError
from motet.io.files import (
    append_text,
    is_own_folder,
    make_folder,
    open_own,
    read_own,
    remove_temporaries,
    sync_folder,
    synced_length,
    truncate,
    write_atomic,
)
from motet.io.locks import FolderLock
from motet.methods.base.learned_figure import LearnedFigure, figures_from_json, figures_to_json
from motet.runs.environment import Environment
from motet.runs.rows import CLIENT, ROUND, LineFormat, Row
from motet.runs.summary import Summary

MOST_BYTES = 2**26  # of an object or a line of JSON, and of an experiment; a round of 100,000 clients takes a tenth

MOST_TEXT = 4096  # of a field of an experiment: a path, or a sum of methods

_ROUNDS, _CLIENTS = "rounds.jsonl", "clients.jsonl"
_ENVIRONMENT, _SUMMARY, _FIGURES = "environment.json", "summary.json", "figures_learned.json"
_BEFORE_A_RUN = {"lock", _ENVIRONMENT, "sites.json", "superlink"}  # what is there before an experiment is settled


class Record:
    """A run folder. Anyone may read it; writing needs `create` or `reopen`, which lock it until `close`."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._lock: FolderLock | None = None

    def create(self, experiment: Experiment, environment: Environment) -> "Record":
        """Create a new run in a folder that is empty or does not exist, and lock it; raise `MotetError` otherwise."""
        self.refuse_if_taken()
        make_folder(self.folder)
        self._lock = FolderLock(self.folder)
        try:
            self.refuse_if_taken()  # again under the lock: another process may have been faster
            remove_temporaries(self.folder)
            write_atomic(self.folder / _ENVIRONMENT, environment.to_json(indent=2))
            experiments.write(experiment, self.folder / "experiment.toml")  # last: this file makes the folder a run
        except BaseException:
            self.close()
            raise
        return self

    def reopen(self) -> "Record":
        """Lock an existing run to continue it; raise `MotetError` if it is no run or contains links."""
        self._require_run()
        self._lock = FolderLock(self.folder)
        try:
            self.refuse_links()
            remove_temporaries(self.folder)
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Release the lock, if this record holds it."""
        if self._lock:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> "Record":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Writing

    @property
    def checkpoint_folder(self) -> Path:
        """The folder of the checkpoints."""
        return self.folder / "checkpoint"

    def refuse_links(self) -> None:
        """Raise if a file or folder that a continued run writes is a link out of the run folder."""
        is_own_folder(self.checkpoint_folder)
        for name in (_ROUNDS, _CLIENTS):
            synced_length(self.folder / name)

    def append_round(self, row: Mapping[str, Any]) -> None:
        """Add one line to rounds.jsonl."""
        self._append(_ROUNDS, ROUND, [row])

    def append_clients(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add a line per client to clients.jsonl."""
        self._append(_CLIENTS, CLIENT, rows)

    def _append(self, name: str, line: LineFormat, rows: Iterable[Mapping[str, Any]]) -> None:
        path = self.folder / name
        append_text(path, "".join(line.written(row, f"a line of {path}") for row in rows))

    def lengths(self) -> dict[str, int]:
        """Return the lengths of both line files in bytes, after syncing them to disk."""
        lengths = {name: synced_length(self.folder / name) for name in (_ROUNDS, _CLIENTS)}
        sync_folder(self.folder)
        return lengths

    def truncate(self, lengths: Mapping[str, int] | None = None) -> None:
        """Cut both line files to the lengths of a checkpoint, or to nothing without lengths.

        Raise `MotetError`, and change nothing, if a length is not at the end of a line.
        """
        wanted = {name: (lengths or {}).get(name, 0) for name in (_ROUNDS, _CLIENTS)}
        for name, length in wanted.items():
            if length and not self._ends_a_line(name, length):
                raise MotetError(f"{self.folder / name} has no end of a line where its checkpoint says, at {length}")
        for name, length in wanted.items():
            truncate(self.folder / name, length)

    def _ends_a_line(self, name: str, length: int) -> bool:
        """Return whether a line ends at this length; True for a file that is too short, which `truncate` reports."""
        try:
            with os.fdopen(open_own(self.folder / name, os.O_RDONLY), "rb") as file:
                file.seek(length - 1)
                return file.read(1) in (b"\n", b"")
        except FileNotFoundError:
            return True

    def write_figures_learned(self, figures: Sequence[LearnedFigure]) -> None:
        """Write figures_learned.json."""
        write_atomic(self.folder / _FIGURES, figures_to_json(figures))

    def write_summary(self, summary: Summary) -> None:
        """Write summary.json, which marks the run as finished."""
        write_atomic(self.folder / _SUMMARY, summary.to_json(indent=2))

    def write_weights(self, data: bytes, name: str = "weights.safetensors") -> Path:
        """Write a weights file atomically and return its path."""
        path = self.folder / name
        make_folder(path.parent)
        write_atomic(path, data)
        return path

    # Reading

    @property
    def experiment(self) -> Experiment:
        """The experiment of the run; raises `MotetError` if its file is damaged."""
        self._require_run()
        path = self.folder / "experiment.toml"
        try:
            values = tomllib.loads(self.read_bytes(path.name).decode())
            if any(len(text) > MOST_TEXT for text in _texts(values)):
                raise ValueError(f"a text of more than {MOST_TEXT} characters")
            return experiments.resolve(values)
        except MotetError as error:
            raise MotetError(f"{path}: {_cut(str(error))}") from error
        except (ValueError, RecursionError, OverflowError) as error:  # invalid TOML or UTF-8, or huge numbers
            raise MotetError(f"{path} is damaged ({_cut(str(error))}); accepted: an experiment in TOML") from error

    @property
    def environment(self) -> Environment:
        """The software and machine that the run was computed with."""
        self._require_run()
        return Environment.from_json(self.read_bytes(_ENVIRONMENT), f"{self.folder / _ENVIRONMENT}")

    @property
    def figures_learned(self) -> list[LearnedFigure]:
        """The figures of what the method learned; empty if the run has not ended."""
        self._require_run()
        path = self.folder / _FIGURES
        return figures_from_json(self.read_bytes(_FIGURES), str(path)) if os.path.lexists(path) else []

    @property
    def rounds(self) -> list[Row]:
        """The rows of all rounds so far."""
        return self._read_lines(_ROUNDS, ROUND)

    @property
    def clients(self) -> list[Row]:
        """The rows of all clients in all evaluations so far."""
        return self._read_lines(_CLIENTS, CLIENT)

    def clients_of(self, round: int) -> list[Row]:
        """Return the client rows of one round and of new clients, without parsing the other lines."""
        wanted = re.compile(rb'"round"\s*:\s*%d\b|"new"\s*:\s*true' % round)
        rows = self._read_lines(_CLIENTS, CLIENT, wanted)
        return [row for row in rows if row["new"] or row["round"] == round]

    @property
    def finished(self) -> bool:
        """Whether the run is finished."""
        self._require_run()
        return (self.folder / _SUMMARY).exists()

    @property
    def how_far(self) -> str:
        """The number of rounds done, in words such as "round 7 of 20"."""
        rounds = self.rounds
        return f"round {rounds[-1]['round'] if rounds else 0} of {self.experiment.rounds.last}"

    def require_finished(self) -> None:
        """Raise `MotetError` if the run is not finished."""
        if not self.finished:
            raise MotetError(f"run {self.folder} is not finished; continue it with `motet resume {self.folder}`")

    @property
    def summary(self) -> Summary:
        """The summary of a finished run."""
        self.require_finished()
        return Summary.from_json(self.read_bytes(_SUMMARY), f"{self.folder / _SUMMARY}")

    def refuse_if_taken(self) -> None:
        """Raise unless a new run may be created in the folder."""
        if not self.folder.exists():
            return
        if not self.folder.is_dir():
            raise MotetError(f"output folder {self.folder} is a file; choose another --out")
        if (self.folder / "experiment.toml").exists():
            raise MotetError(
                f"output folder {self.folder} already holds a run; "
                f"continue it with `motet resume {self.folder}` or choose another --out"
            )
        if any(p.name not in _BEFORE_A_RUN and p.suffix != ".tmp" for p in self.folder.iterdir()):
            raise MotetError(f"output folder {self.folder} is not empty; choose another --out")

    def _require_run(self) -> None:
        if not (self.folder / "experiment.toml").is_file():
            raise MotetError(f"{self.folder} is no run: no experiment.toml there; accepted: a folder of `motet run`")

    def _read_lines(self, name: str, format: LineFormat, wanted: re.Pattern[bytes] | None = None) -> list[Row]:
        self._require_run()
        rows, path = [], self.folder / name
        try:
            with os.fdopen(open_own(path, os.O_RDONLY), "rb") as file:
                for i, line in enumerate(iter(partial(file.readline, MOST_BYTES), b""), 1):
                    if len(line) == MOST_BYTES:
                        raise MotetError(f"line {i} of {path} has {MOST_BYTES} bytes or more; accepted: a row in JSON")
                    if not line.endswith(b"\n"):
                        break  # an incomplete line: the process was killed or is still writing
                    if wanted is not None and not wanted.search(line):
                        continue
                    rows.append(format.read(line, f"line {i} of {path}"))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise MotetError(f"cannot read {path}: {error.strerror}") from error
        return rows

    def read_bytes(self, name: str) -> bytes:
        """Return the bytes of a file in the folder; raise `MotetError` if it cannot be read."""
        try:
            return read_own(self.folder / name, MOST_BYTES)
        except OSError as error:
            raise MotetError(f"cannot read {self.folder / name}: {error.strerror}") from error


def default_folder(experiment: Experiment, base: Path = Path("runs")) -> Path:
    """Return runs/DATA-METHOD-seedN, with -2, -3 and so on if that exists already."""
    words = f"{Path(experiment.data.name).stem}-{experiment.method}"
    safe = re.sub(r"[^A-Za-z0-9.+=_-]+", "-", words).strip("-.")[:100]
    name = f"{safe}-seed{experiment.seed}"
    folder, copies = base / name, 1
    while folder.exists():
        copies += 1
        folder = base / f"{name}-{copies}"
    return folder


def _texts(value: Any) -> Iterator[str]:
    """Yield every string in nested values."""
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts(inner)


def _cut(text: str, most: int = 350) -> str:
    return text if len(text) <= most else f"{text[:most]} …"
