"""Train the recommended method of a comparison once more, on the rows too that it was judged on, before it is used.

The figures of a comparison are of models that never saw the test rows. Models that go into use should learn from all
rows: the same experiment runs once more without test rows, for as many rounds as the judged models had, in the folder
`refit` of the comparison. What it makes cannot be scored; the figures stay those of the judged models.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isfinite
from pathlib import Path
from statistics import fmean

from motet.config.experiment import Experiment, read, resolve
from motet.config.identity import differences
from motet.data import FederationFacts, build
from motet.errors import MotetError
from motet.export.run import Exported, JudgedFigures, chosen_thresholds, export_run, refuse_taken
from motet.metrics.threshold import Thresholds
from motet.runs import run as runs
from motet.runs.clients_file import read_clients_info
from motet.runs.raw_model import RawModel
from motet.runs.record import Record
from motet.runs.run import Watcher
from motet.runs.served_models import ServedModels
from motet.runs.trust import require_trust
from motet.server.assembly import method_of, settle
from motet.studies.compare import RECOMMENDED
from motet.studies.comparison_file import read_comparison

FOLDER = "refit"
MOST_LOOKED_AT = 100
"""Clients whose models of a refit are looked at, the first ones."""
TOLERATED, SMALL = 1.5, 0.05
"""A refit is broken if its mean loss is more than so many times that of the judged models, and a little."""


def export_comparison(
    folder: Path,
    out: Path,
    clients: Sequence[int | str] = (),
    generic: bool = False,
    formats: Sequence[str] = ("torch",),
    left_out: Callable[[str], None] = lambda sentence: None,
    threshold: str = "",
    refit: bool = True,
    watcher: Watcher | None = None,
    trust_code: bool = False,
) -> list[Exported]:
    """Write the models of the method that a comparison recommends; parameters as for `export_run`.

    With `refit` they are trained once more on all rows. Otherwise they are those of the method's first run.
    """
    refuse_taken(out)
    record = judged_run(folder)
    as_judged = ServedModels(record, trust_code, resolve(read(folder / RECOMMENDED)).data.name)
    if not refit:
        return export_run(as_judged, out, clients, generic, formats, left_out, threshold)
    thresholds = chosen_thresholds(as_judged, threshold) if threshold else as_judged.thresholds
    served = refitted(folder, watcher, trust_code)
    if why := broken(served, as_judged):
        left_out(why)
        return export_run(as_judged, out, clients, generic, formats, left_out, threshold)
    served.thresholds = _by_name(thresholds, record, served)
    judged = JudgedFigures.of(record, record.summary.reported.round)
    return export_run(served, out, clients, generic, formats, left_out, judged=judged)


def broken(served: ServedModels, as_judged: ServedModels) -> str:
    """Return a sentence if the refit's training broke: its models fit the rows that they learned from far worse than
    those that were judged fit theirs; else an empty text.

    Nothing else would tell: a refit has no test rows. A step that was just small enough on the judged rows may be too
    large on all of them. Both are asked about their own rows, prepared in their own way: of more rows there may be more
    categories, and holes in more columns.
    """
    judged_ids = {client.name: client.id for client in as_judged.facts.clients}
    known = [client for client in served.facts.clients if client.name in judged_ids][:MOST_LOOKED_AT]
    again = {client.id: _model_of(served, client.id) for client in known}
    before = {i: _model_of(as_judged, i) for i in (judged_ids[client.name] for client in known)}
    losses, once = served.training_losses(again), as_judged.training_losses(before)
    if not losses:
        return ""
    mean, judged = fmean(losses.values()), fmean(once.values())
    if isfinite(mean) and mean <= TOLERATED * judged + SMALL:
        return ""
    return (
        f"the models of the refit: their loss on rows that they learned from is {mean:.3g}, and {judged:.3g} of those "
        f"that were judged, so that its training broke. The judged models are written instead"
    )


def _model_of(served: ServedModels, client: int) -> RawModel:
    personalizes = served.record.summary.reported.personalizes
    return served.personal_model(client) if personalizes else served.generic_model()


def judged_run(folder: Path) -> Record:
    """Return the first run of the method that a comparison recommends; raise a `MotetError` if it names none."""
    best = read_comparison(folder).best
    if best is None or not best.runs:
        raise MotetError(f"{folder} names no run of the recommended method; accepted: compare again")
    return Record(folder / best.runs[0])


def refitted(folder: Path, watcher: Watcher | None = None, trust_code: bool = False) -> ServedModels:
    """Return the models of the recommended method, trained once more on all rows.

    A finished refit is used again, and one that was stopped goes on.
    """
    judged, again = judged_run(folder), folder / FOLDER
    experiment = experiment_of(folder, judged, trust_code)
    if not (again / "experiment.toml").is_file():
        runs.run(experiment, again, watcher)
    elif other := differences(Record(again).experiment, settle(experiment)):
        raise MotetError(f"{again} holds another experiment ({other[0]}); remove it, or export with --no-refit")
    else:
        runs.resume(again, watcher, trust_code)
    return ServedModels(Record(again), trust_code)


def experiment_of(folder: Path, judged: Record, trust_code: bool = False) -> Experiment:
    """Return the experiment of the refit: that of recommended.toml on all rows, for as many rounds as were chosen or as
    the judged models had."""
    asked = resolve(read(folder / RECOMMENDED))
    require_trust(asked, folder, trust_code)
    count = asked.rounds.count
    rounds = judged.summary.reported.round if count == "auto" else count
    return without_test_rows(asked).with_({"rounds.count": rounds})


def without_test_rows(experiment: Experiment) -> Experiment:
    """Return the experiment with all rows to learn from: no test rows, and validation rows only where the method
    chooses by them."""
    method = method_of(experiment, FederationFacts.of(build(experiment.data, experiment.seed)))
    validates = method.needs_validation or (method.family is not None and method.family.validates)
    data = {"pool": "no_test", "new_clients": 0.0, "resplit": 0, **({} if validates else {"val_share": 0.0})}
    scoring = {"test": "none", "report": "last", "clients": "training", "metrics": [], "threshold": ""}
    return experiment.with_({"data": data, "scoring": scoring})


def _by_name(chosen: Thresholds | None, judged: Record, served: ServedModels) -> Thresholds | None:
    """Return the thresholds by the numbers that clients have in the refit."""
    if chosen is None:
        return None
    names = {client.id: client.name for client in read_clients_info(judged).clients}
    theirs = {names[i]: each for i, each in chosen.clients.items() if i in names}
    here = {client.id: theirs[client.name] for client in served.facts.clients if client.name in theirs}
    return replace(chosen, clients=here)
