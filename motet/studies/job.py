"""A job is one run of a study up to some round: started, continued, or skipped where the record has that round."""

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from motet.config.experiment import Experiment, resolve
from motet.config.identity import differences
from motet.errors import MotetError, one_sentence
from motet.io.user_code import place_of, said_of
from motet.runs.record import Record
from motet.runs.run import resume, run
from motet.runs.trust import refuse_other_code
from motet.server.evaluation import Row

INLINE: Mapping[str, Any] = {"name": "inline"}  # runs of a study are computed side by side, a core each

OnRound = Callable[[int], None]  # is called with the number of each round that ended


@dataclass(frozen=True)
class Job:
    """An experiment in a folder, and the round that it must reach; None is its last round."""

    label: str
    folder: Path
    experiment: Experiment
    until: int | None = None

    @property
    def rounds(self) -> int:
        """Return the round that the job ends with."""
        return self.until or self.experiment.rounds.last

    @property
    def begun(self) -> bool:
        """Return whether there is a run in its folder."""
        return (self.folder / "experiment.toml").is_file()

    @property
    def done(self) -> bool:
        """Return whether the record has the job's last round; raise if the folder holds another experiment."""
        if not self.begun:
            return False
        record = Record(self.folder)
        if other := differences(record.experiment, self.experiment):
            raise MotetError(f"{self.folder} holds another experiment ({other[0]}); remove it, or choose another --out")
        refuse_other_code(record.environment.code, self.experiment, self.folder)
        return record.finished or (self.until is not None and reached(record) >= self.until)


def asked_of(job: Job) -> dict[str, Any]:
    """Return a job as JSON, for another process; its folder is the same from any current folder."""
    return {
        "label": job.label,
        "folder": str(job.folder.absolute()),
        "experiment": job.experiment.model_dump(),
        "until": job.until,
    }


def job_of(asked: Mapping[str, Any]) -> Job:
    """Return the job that `asked_of` described."""
    return Job(asked["label"], Path(asked["folder"]), resolve(asked["experiment"]), asked["until"])


def reached(record: Record) -> int:
    """Return the last round in the record."""
    rows = record.rounds
    return int(rows[-1]["round"]) if rows else 0


def row_of(folder: Path, round: int) -> Row:
    """Return the record's row of a round."""
    found: list[Row] = [row for row in Record(folder).rounds if row.get("round") == round]
    if not found:
        raise MotetError(f"{folder / 'rounds.jsonl'} has no round {round}; remove the folder and start again")
    return found[-1]


def attempt(job: Job, on_round: OnRound, engine: Mapping[str, Any] = INLINE) -> str | None:
    """Run what is missing of a job with these settings of [engine]; return None, or one sentence if it fails.

    One broken method, perhaps the user's own, does not end a study of many; its traceback goes to stderr.
    """
    try:
        perform(job, on_round, engine)
    except MotetError as error:
        return str(error)
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        if place := place_of(error):
            return said_of(error, place)
        at = traceback.extract_tb(error.__traceback__)[-1]
        return one_sentence(f"{type(error).__name__}: {error} (in {at.filename}, line {at.lineno})")
    return None


def perform(job: Job, on_round: OnRound, engine: Mapping[str, Any] = INLINE) -> None:
    """Run what is missing of a job; a job that was killed and is performed again leaves the same record."""
    if job.done:
        return
    watcher = _Watcher(job.until, on_round)
    try:
        if job.begun:
            resume(job.folder, watcher, engine=engine)
        else:
            run(job.experiment.with_({"engine": engine}), job.folder, watcher)
    except _FarEnough:
        pass


class _FarEnough(Exception):
    """Raised when a run reached its job's last round; it can be resumed."""


class _Watcher:
    """Reports each round, and stops the run after its job's last one."""

    def __init__(self, until: int | None, on_round: OnRound):
        self.until, self.on_round = until, on_round

    def started(self, experiment: Experiment, folder: Path, round: int, warning: str | None) -> None:
        """Do nothing."""

    def round(self, row: Row) -> None:
        """Report a round that is in the record, and stop the run after the job's last one."""
        round = row["round"]
        assert isinstance(round, int)
        self.on_round(round)
        if self.until is not None and round >= self.until:
            raise _FarEnough
