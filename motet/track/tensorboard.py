"""A log for TensorBoard: a folder with one event file."""

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any, ClassVar

from motet.config.experiment import Experiment
from motet.io.files import is_own_folder, make_folder
from motet.io.user_paths import user_path

EVENTS = "events.out.tfevents.motet"  # TensorBoard's own writer would put the name of the machine here
VERSION = "brain.Event:2"  # version of the file format


class TensorBoard:
    """A log for TensorBoard, in RUN/tensorboard or in a folder per run under a named one."""

    package: ClassVar[str] = "tensorboard"

    def __init__(self, place: str):
        self.place = user_path(place, "track") if place else None
        self.file: IO[bytes] | None = None
        self.records: Any = None

    def start(self, experiment: Experiment, folder: Path) -> None:
        """Begin a new event file and delete that of an earlier start: the record has all its rounds."""
        where = folder / "tensorboard" if self.place is None else self.place / folder.resolve().name
        if not is_own_folder(where):
            make_folder(where)
        with suppress(FileNotFoundError):
            os.unlink(where / EVENTS)
        self.file = open(where / EVENTS, "xb")  # noqa: SIM115 - closed by `close`
        self.records = import_module("tensorboard.summary.writer.record_writer").RecordWriter(self.file)
        self._write(file_version=VERSION)

    def log(self, round: int, values: Mapping[str, float]) -> None:
        """Write one scalar per value."""
        Summary = import_module("tensorboard.compat.proto.summary_pb2").Summary  # untyped, and an extra
        scalars = [Summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        self._write(step=round, summary=Summary(value=scalars))

    def flush(self) -> None:
        """Flush the event file."""
        assert self.file is not None
        self.file.flush()

    def close(self, finished: bool) -> None:
        """Close the event file."""
        if self.file is not None:
            self.file.close()

    def _write(self, **content: Any) -> None:
        Event = import_module("tensorboard.compat.proto.event_pb2").Event
        self.records.write(Event(wall_time=time.time(), **content).SerializeToString())
