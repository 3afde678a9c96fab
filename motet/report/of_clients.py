"""One run client by client: alone, with the one model, with its own, and whether the difference may be chance."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from motet.errors import MotetError
from motet.report.finished import Finished, rows_of
from motet.runs.beside_local import LOCAL, same_clients
from motet.runs.people import Person
from motet.runs.record import Record
from motet.scoring.figures import AFTER, PERSONAL, Figure
from motet.scoring.over_clients import INSTEAD_OF
from motet.scoring.pairs import Gain, gain


@dataclass(frozen=True)
class ClientRow:
    """A client's accuracies on the headline's test data; `without` is the generic model's, a new client's before."""

    person: Person
    alone: float | None
    without: float | None
    own: float | None
    gain: Gain | None


@dataclass(frozen=True)
class ClientsOfRun:
    """All clients of a run, those that trained and the new ones."""

    run: Finished
    data: str
    training: list[ClientRow]
    new: list[ClientRow]

    @property
    def has_alone(self) -> bool:
        """Whether a run of `local` is beside it."""
        return any(row.alone is not None for row in (*self.training, *self.new))

    def as_json(self) -> dict[str, Any]:
        """For programs: accuracies as fractions."""
        return {
            "run": str(self.run.folder),
            "method": self.run.experiment.method,
            "seed": self.run.experiment.seed,
            "figure": str(Figure(PERSONAL, self.data)),
            "clients": [_json(row, "generic", "personal") for row in self.training],
            "new_clients": [_json(row, "before", "after") for row in self.new],
            "verdicts": tally(self.training),
            "new_verdicts": tally(self.new),
        }


def tally(rows: Sequence[ClientRow]) -> dict[str, int]:
    """How many clients gain, lose, are within noise; of `unknown` ones there is a gain and no interval."""
    found = Counter(row.gain.verdict for row in rows if row.gain)
    return {verdict: found[verdict] for verdict in ("gain", "lose", "noise", "unknown")}


def clients_of(run: Finished, local: Finished | None) -> ClientsOfRun:
    """From the record of the run, beside a run of `local` on the same clients."""
    record, data = Record(run.folder), run.headline.data
    alone = {} if local is None else _alone(local, data)
    people = run.people.by_id
    kinds: dict[bool, list[ClientRow]] = {}
    for new, model in ((False, PERSONAL), (True, AFTER)):
        rows = rows_of(record, run.summary, new)
        kinds[new] = [_row(people[i], row, model, data, alone.get(i)) for i, row in sorted(rows.items()) if i in people]
    return ClientsOfRun(run, data, kinds[False], kinds[True])


def each_beside_local(runs: Sequence[Finished], named: Finished | None) -> list[ClientsOfRun]:
    """Every run beside the named run of `local`, or one among them; that one stands beside others, not for itself."""
    if named is not None:
        runs = [run for run in runs if run.folder != named.folder] or runs
        for run in runs:
            _refuse_others(run, named)
    locals_ = [named] if named else [run for run in runs if run.experiment.method == LOCAL]
    found = [(run, _same(locals_, run)) for run in runs]
    others = [pair for pair in found if pair[0].experiment.method != LOCAL]
    used = {id(local) for _, local in others}
    return [clients_of(run, local) for run, local in found if id(run) not in used]


def _same(locals_: Sequence[Finished], run: Finished) -> Finished | None:
    if run.experiment.method == LOCAL:
        return None
    return next((each for each in locals_ if same_clients(each.experiment, run.experiment)), None)


def _refuse_others(run: Finished, local: Finished) -> None:
    if local.experiment.method != LOCAL or not same_clients(run.experiment, local.experiment):
        raise MotetError(
            f"{local.folder} is no run of 'local' on the clients of {run.folder}; accepted: one with the same section "
            f"[data] and the same seed"
        )


def _alone(local: Finished, data: str) -> dict[int, float]:
    """What each client reaches by itself; a new one by training on its own data alone."""
    record, found = Record(local.folder), {}
    for new, model in ((False, PERSONAL), (True, AFTER)):
        for i, row in rows_of(record, local.summary, new).items():
            if (value := Figure(model, data).of(row)) is not None:
                found[i] = value
    return found


def _row(person: Person, row: Mapping[str, Any], model: str, data: str, alone: float | None) -> ClientRow:
    without, own = (Figure(each, data).of(row) for each in (INSTEAD_OF[model], model))
    return ClientRow(person, alone, without, own, gain(row, model, data))


def _json(row: ClientRow, without: str, own: str) -> dict[str, Any]:
    gained = row.gain
    return {
        **asdict(row.person),
        "alone": row.alone,
        without: row.without,
        own: row.own,
        "gain": None if gained is None else gained.value,
        "interval": None if gained is None or gained.low is None else [gained.low, gained.high],
        "verdict": None if gained is None else gained.verdict,
    }
