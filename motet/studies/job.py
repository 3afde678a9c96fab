"""One run of a study, up to a round: computed, continued, or left alone where it got so far already."""

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from motet.config.experiment import Experiment, resolve
from motet.config.identity import differences
from motet.config.nesting import merge
from motet.errors import MotetError, one_sentence
from motet.io.user_code import place_of, said_of
from motet.runs.record import Record
from motet.runs.run import resume, run
from motet.runs.trust import refuse_other_code
from motet.server.evaluation import Row

INLINE = {"engine": {"name": "inline"}}  # runs of a study are computed side by side, a core each

Told = Callable[[int], None]  # hears the number of each round that ended


@dataclass(frozen=True)
class Job:
    """An experiment in a folder, and how far it shall get; None: to its end."""

    label: str
    folder: Path
    experiment: Experiment
    until: int | None = None

    @property
    def rounds(self) -> int:
        """The round it gets to."""
        return self.until or self.experiment.rounds.count

    @property
    def begun(self) -> bool:
        """Whether there is a run in its folder."""
        return (self.folder / "experiment.toml").is_file()

    @property
    def done(self) -> bool:
        """Whether its record says all that it is for; a folder that holds another experiment is refused."""
        if not self.begun:
            return False
        record = Record(self.folder)
        if other := differences(record.experiment, self.experiment):
            raise MotetError(f"{self.folder} holds another experiment ({other[0]}); remove it, or choose another --out")
        refuse_other_code(record.environment.code, self.experiment, self.folder)
        return record.finished or (self.until is not None and reached(record) >= self.until)


def reached(record: Record) -> int:
    """The last round in the record."""
    rows = record.rounds
    return int(rows[-1]["round"]) if rows else 0


def row_of(folder: Path, round: int) -> Row:
    """What the record says of a round."""
    found: list[Row] = [row for row in Record(folder).rounds if row.get("round") == round]
    if not found:
        raise MotetError(f"{folder / 'rounds.jsonl'} has no round {round}; remove the folder and start again")
    return found[-1]


def attempt(job: Job, told: Told) -> str | None:
    """Do what is missing of a job; where that fails, one sentence.

    One broken method, perhaps the user's own, does not end a study of many; its traceback goes to stderr.
    """
    try:
        perform(job, told)
    except MotetError as error:
        return str(error)
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        if place := place_of(error):
            return said_of(error, place)
        at = traceback.extract_tb(error.__traceback__)[-1]
        return one_sentence(f"{type(error).__name__}: {error} (in {at.filename}, line {at.lineno})")
    return None


def perform(job: Job, told: Told) -> None:
    """Do what is missing of a job; killed at any moment and performed again it leaves the same record."""
    if job.done:
        return
    watcher = _Watcher(job.until, told)
    try:
        if job.begun:
            resume(job.folder, watcher)
        else:
            run(resolve(merge(job.experiment.model_dump(), INLINE)), job.folder, watcher)
    except _FarEnough:
        pass


class _FarEnough(Exception):
    """The round was reached that a job is for; the run can be resumed."""


class _Watcher:
    """Tells of each round, and stops the run after its job's last one."""

    def __init__(self, until: int | None, told: Told):
        self.until, self.told = until, told

    def started(self, experiment: Experiment, folder: Path, round: int, warning: str | None) -> None:
        """Nothing to do."""

    def round(self, row: Row) -> None:
        """A round ended, and is in the record."""
        round = row["round"]
        assert isinstance(round, int)
        self.told(round)
        if self.until is not None and round >= self.until:
            raise _FarEnough
