"""The record of a run: one folder that says what was asked, what happened and what came out.

experiment.toml  environment.json  clients.json  rounds.jsonl  clients.jsonl  summary.json  checkpoint/  lock
"""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from motet.errors import MotetError
from motet.files import (
    append_lines,
    make_folder,
    remove_temporaries,
    sync_folder,
    synced_length,
    to_json,
    truncate,
    write_atomic,
)
from motet.runs import experiment as experiments
from motet.runs.experiment import Experiment
from motet.runs.identity import recorded
from motet.runs.lock import FolderLock

Row = dict[str, Any]

_ROUNDS, _CLIENTS = "rounds.jsonl", "clients.jsonl"
_BEFORE_A_RUN = {"lock", "environment.json"}  # all that a process killed while creating a run leaves


class Record:
    """A run folder. Reading needs nothing; writing needs `create` or `reopen`, which lock it until `close`."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._lock: FolderLock | None = None

    def create(self, experiment: Experiment, environment: Mapping[str, Any]) -> "Record":
        """Begin a new run in a folder that is empty or not there."""
        self._refuse_if_taken()
        make_folder(self.folder)
        self._lock = FolderLock(self.folder)
        try:
            self._refuse_if_taken()  # by another process, a moment ago
            remove_temporaries(self.folder)
            self._write_json("environment.json", environment)
            experiments.write(experiment, self.folder / "experiment.toml")  # last: with it the folder is a run
        except BaseException:
            self.close()
            raise
        return self

    def reopen(self) -> "Record":
        """Go on writing a run."""
        self._require_run()
        self._lock = FolderLock(self.folder)
        remove_temporaries(self.folder)
        return self

    def close(self) -> None:
        """Let another process write the run."""
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
        """Where the checkpoints are."""
        return self.folder / "checkpoint"

    def append_round(self, row: Mapping[str, Any]) -> None:
        """Add one line to rounds.jsonl."""
        append_lines(self.folder / _ROUNDS, [row])

    def append_clients(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add a line per client to clients.jsonl."""
        append_lines(self.folder / _CLIENTS, rows)

    def lengths(self) -> dict[str, int]:
        """The bytes of both line files, for a checkpoint; they are on disk when this returns."""
        lengths = {name: synced_length(self.folder / name) for name in (_ROUNDS, _CLIENTS)}
        sync_folder(self.folder)
        return lengths

    def truncate(self, lengths: Mapping[str, int] | None = None) -> None:
        """Forget the lines written after a checkpoint; without lengths, all lines."""
        for name in (_ROUNDS, _CLIENTS):
            truncate(self.folder / name, (lengths or {}).get(name, 0))

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """Write summary.json: with it the run is finished."""
        self._write_json("summary.json", summary)

    def write_weights(self, data: bytes, name: str = "weights.safetensors") -> Path:
        """Write a weights file, whole or not at all."""
        path = self.folder / name
        make_folder(path.parent)
        write_atomic(path, data)
        return path

    # Reading

    @property
    def experiment(self) -> Experiment:
        """What was asked."""
        self._require_run()
        return recorded(experiments.read(self.folder / "experiment.toml"))

    @property
    def environment(self) -> Row:
        """Where it was computed."""
        return self._read_json("environment.json")

    @property
    def people(self) -> Row:
        """Who the clients are, by name (`motet/runs/people.py`)."""
        return self._read_json("clients.json")

    @property
    def rounds(self) -> list[Row]:
        """One row per round so far."""
        return self._read_lines(_ROUNDS)

    @property
    def clients(self) -> list[Row]:
        """One row per client and scoring so far."""
        return self._read_lines(_CLIENTS)

    @property
    def finished(self) -> bool:
        """Whether the run came to its end."""
        self._require_run()
        return (self.folder / "summary.json").exists()

    @property
    def summary(self) -> Row:
        """What came out."""
        if not self.finished:
            raise MotetError(f"run {self.folder} is not finished; continue it with `motet resume {self.folder}`")
        return self._read_json("summary.json")

    def _refuse_if_taken(self) -> None:
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

    def _write_json(self, name: str, value: Mapping[str, Any]) -> None:
        write_atomic(self.folder / name, (to_json(value, indent=2) + "\n").encode())

    def _read_json(self, name: str) -> Row:
        self._require_run()
        return _object(self._read_bytes(name), f"{self.folder / name}")

    def _read_lines(self, name: str) -> list[Row]:
        self._require_run()
        if not (self.folder / name).exists():
            return []
        lines = self._read_bytes(name).split(b"\n")
        # What follows the last line end is empty, or half a line of a process that was killed or still writes.
        return [_object(line, f"line {i} of {self.folder / name}") for i, line in enumerate(lines[:-1], 1)]

    def _read_bytes(self, name: str) -> bytes:
        try:
            return (self.folder / name).read_bytes()
        except OSError as error:
            raise MotetError(f"cannot read {self.folder / name}: {error.strerror}") from error


def default_folder(experiment: Experiment, base: Path = Path("runs")) -> Path:
    """runs/DATA-METHOD-seedN, with -2, -3 and so on if that is taken."""
    words = f"{Path(experiment.data.name).stem}-{experiment.method}"
    safe = re.sub(r"[^A-Za-z0-9.+=_-]+", "-", words).strip("-.")[:100]
    name = f"{safe}-seed{experiment.seed}"
    folder, copies = base / name, 1
    while folder.exists():
        copies += 1
        folder = base / f"{name}-{copies}"
    return folder


def _object(data: bytes, where: str) -> Row:
    try:
        value = json.loads(data)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise MotetError(f"{where} is damaged; accepted: a JSON object")
    return value
