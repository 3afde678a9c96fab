"""The tuner: settings drawn by optuna, compared on validation data.

Trials come in generations. All trials of one run to the first rung; the better half, and no fewer than two, goes on to
the next, and so on to the last round. What is chosen is the best setting of those that ran to the end. Where rounds end
by themselves, there is one rung, when a trial's first patience is over, and on a table none; the score of a trial is
that of its best round. The next generation is drawn with what the ones before found. A trial is a run of its own,
stopped at a rung and resumed if it goes on, so that its rounds are those of the whole run. No test data are looked at.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf, log
from pathlib import Path
from typing import Any

from motet.config.experiment import Experiment
from motet.config.own_data import is_table
from motet.config.section import LARGEST, dotted_fields
from motet.errors import MotetError
from motet.io.files import make_folder
from motet.io.json_models import fitted
from motet.metrics.registry import headline_metric
from motet.metrics.statistics import share_error
from motet.runs.record import Record
from motet.server.evaluation import Row
from motet.server.stopping import Stopping
from motet.studies.comparison_file import TrialResult
from motet.studies.job import Job, row_of
from motet.studies.journal import Drawn, Journal, Judged
from motet.studies.schedule import Workflow
from motet.studies.space import NET, Setting, Space, first_setting, recipe, settings_in, size_of, space_of, with_setting

GENERATION = 10  # trials that are drawn before any of them is judged
FEWEST_TO_THE_END = 2
_DEFAULTS_FIRST = 3  # trials with the options' defaults, at the three nearest learning rates
_NEAREST = (0, 1, 2, 0, 1, 3, 2, 4, 0, 1)  # which learning rate each trial of a generation has, by its distance
_REDRAWS = 20


@dataclass
class Trial:
    """One setting, and how it did so far."""

    number: int
    setting: Setting
    rounds: int = 0
    score: float | None = None
    loss: float | None = None  # on the same validation data, for settings that are as good
    sign: int = 1  # -1 where a lower score is better
    to_the_end: bool = False  # it did not stop at a rung
    failure: str | None = None

    def result(self) -> TrialResult:
        """Return the trial as the files of a study have it."""
        return TrialResult(options=self.setting, score=self.score, rounds=self.rounds, failure=self.failure)


@dataclass
class Tuned:
    """What the tuning of a method found: the best setting, or why there is none."""

    method: str
    trials: list[Trial]
    setting: Setting | None
    failure: str | None = None
    all_tried: bool = False  # all settings of the space were tried
    rounds: int | None = None  # the best round of the best setting, where rounds end by themselves
    capped: bool = False  # that setting still improved when the rounds had to end


def rungs(rounds: int) -> list[int]:
    """Return the rounds after which trials are compared: a quarter, a half, the end."""
    step = max(1, rounds // 4)
    return sorted({step, min(2 * step, rounds), rounds})


def validating(experiment: Experiment) -> Experiment:
    """Return the experiment as a trial: scored on validation data alone, at every rung."""
    scoring = {"test": "none", "metrics": [], "derived_generic": False}
    if ends_by_itself(experiment):
        return experiment.with_({"scoring": scoring})
    step = rungs(experiment.rounds.last)[0]
    return experiment.with_({"scoring": {**scoring, "report": "last", "every": step}, "checkpoint": {"every": step}})


def ends_by_itself(experiment: Experiment) -> bool:
    """Return whether the rounds of an experiment end by validation."""
    return experiment.rounds.count == "auto"


def tune(
    experiment: Experiment,
    trials: int,
    folder: Path,
    label: str,
    nets: Sequence[str] = (),
    rows: int = 0,
    settled: int = 0,
) -> Workflow[Tuned]:
    """Find the best setting of the experiment's method by so many trials; the folder gets the journal and the runs.

    `nets` are tried too, if there are several. `rows` is the number of validation samples of all clients: settings
    whose scores differ by less than a standard error are told apart by their loss. `settled` is the method's
    `settled_after`.
    """
    space = space_of(experiment, nets)
    asked = min(trials, size_of(space))
    make_folder(folder)
    journal = Journal(folder / "trials.jsonl")
    known = journal.lines()
    steps: list[int | None] = [*rungs(experiment.rounds.last)]
    if ends_by_itself(experiment):
        first = first_rung(experiment, settled)
        steps = [first, None] if halves(experiment) and first < experiment.rounds.most else [None]
        if first in steps:  # from where the trials that go on are resumed
            experiment = experiment.with_({"checkpoint": {"every": first}})
    found: list[Trial] = []
    sign = headline_metric(experiment.scoring).direction
    while len(found) < asked:
        generation: list[Trial] = []
        for _ in range(min(GENERATION, asked - len(found))):
            number = len(found) + len(generation)
            drawn = _draw(space, experiment, [*found, *generation], len(found))
            line = journal.ensure(known, Drawn(trial=number, options=drawn))
            generation.append(Trial(number, _in_order(line, drawn, journal), sign=sign))
        running = generation
        for rung in steps:
            jobs = {trial.number: _job(experiment, trial, folder, label, rung) for trial in running}
            failures = yield list(jobs.values())
            for trial in running:
                _judge(trial, jobs[trial.number], rung, settled, rows, failures, journal, known)
            running = _better(running, _going_on(len(running)), rows)
        found += generation
    finished = [t for t in found if t.score is not None and t.to_the_end]
    if not finished:
        why = next((trial.failure for trial in found if trial.failure), "no trial has a score on validation data")
        return Tuned(experiment.method, found, None, why, asked < trials)
    best = best_of(finished, rows)
    made = Tuned(experiment.method, found, best.setting, all_tried=asked < trials)
    if ends_by_itself(experiment):
        made.rounds = best.rounds
        made.capped = experiment.rounds.most - best.rounds < experiment.rounds.patience
    return made


def best_of(trials: Sequence[Trial], rows: int) -> Trial:
    """Return the best of finished trials: the lowest loss among those within a standard error of the best score.

    On few validation samples the highest score of many settings is often luck, and the loss tells more. Of equal ones
    it is the earlier.
    """
    best = max(map(_score, trials))
    error = share_error(best, rows)  # of a share, at most of others
    near = [trial for trial in trials if _score(trial) >= best - error - 1e-12]
    if not rows or any(trial.loss is None for trial in near):
        return max(near, key=lambda t: (_score(t), -t.number))
    return min(near, key=lambda t: (inf if t.loss is None else t.loss, t.number))


def rounds_of(trials: int, rounds: int, first: int = 0) -> int:
    """Return how many rounds the trials of a method take together, at most; `first` is the one rung where rounds end by
    themselves."""
    total, left = 0, trials
    while left > 0:
        running, before = min(GENERATION, left), 0
        left -= running
        for rung in sorted({first, rounds}) if first else rungs(rounds):
            total += running * (rung - before)
            running, before = _going_on(running), rung
    return total


def _going_on(running: int) -> int:
    """Return how many trials go on after a rung: the better half, but two to the end, as some settings learn slowly."""
    return max(-(-running // 2), min(FEWEST_TO_THE_END, running))


def _job(experiment: Experiment, trial: Trial, folder: Path, label: str, rung: int | None) -> Job:
    chosen = with_setting(experiment, trial.setting)
    return Job(f"{label}, trial {trial.number + 1}", folder / f"trial-{trial.number}", chosen, rung)


def halves(experiment: Experiment) -> bool:
    """Return whether the worse half of the trials is stopped early.

    Not on a table, whose rounds are short and end by themselves: settings with few local steps begin slowly.
    """
    return not (ends_by_itself(experiment) and is_table(experiment.data.name))


def first_rung(experiment: Experiment, settled: int) -> int:
    """Return the round after which trials whose rounds end by themselves are compared."""
    rounds = experiment.rounds
    return min(settled + rounds.patience, rounds.most)


def _judge(
    trial: Trial,
    job: Job,
    rung: int | None,
    settled: int,
    samples: int,
    failures: Mapping[str, str],
    journal: Journal,
    known: list[Drawn | Judged],
) -> None:
    """Read the score of the rung, or of the best round so far, or keep the sentence with which the trial failed."""
    failure = failures.get(job.label)
    row = {} if failure else _deciding_row(job, rung, settled, samples)
    figure = replace(job.experiment.training_headline, data="validation")
    score, loss = figure.of(row), replace(figure, metric="loss").of(row)
    if max(abs(score or 0.0), abs(loss or 0.0)) > LARGEST:
        failure = f"training diverged: {figure.metric} {score:.1e} on validation data"
        score = loss = None
    found = {
        "trial": trial.number,
        "round": row.get("round", rung or 0),
        "score": score,
        "loss": loss,
        "failure": failure,
    }
    line = journal.ensure(known, fitted(Judged, found, f"the record in {job.folder}"))
    if not ends_by_itself(job.experiment) and line.round != rung:
        raise journal.of_another_tuning()
    trial.rounds, trial.score, trial.loss, trial.failure = line.round, line.score, line.loss, line.failure
    trial.to_the_end = rung in (None, job.experiment.rounds.last)


def _deciding_row(job: Job, rung: int | None, settled: int, samples: int) -> Row:
    """Return the row of the rung, or, where rounds end by themselves, that of the best round up to it."""
    if not ends_by_itself(job.experiment):
        assert rung is not None
        return row_of(job.folder, rung)
    rows = [row for row in Record(job.folder).rounds if rung is None or row["round"] <= rung]
    stopping = Stopping.of(job.experiment, settled, samples, rows)
    assert stopping is not None
    return row_of(job.folder, stopping.kept or rows[-1]["round"])


def _better(trials: Sequence[Trial], many: int, rows: int) -> list[Trial]:
    """Return so many of the best trials, in the order of their numbers; each is the best of those left."""
    left, best = [trial for trial in trials if trial.score is not None], list[Trial]()
    while left and len(best) < many:
        best.append(best_of(left, rows))
        left.remove(best[-1])
    return sorted(best, key=lambda t: t.number)


def _score(trial: Trial) -> float:
    """Return the score of a trial that has one, so that higher is better."""
    assert trial.score is not None
    return trial.sign * trial.score


def _in_order(line: Drawn, drawn: Setting, journal: Journal) -> Setting:
    """Return a trial's setting as the journal has it, in the order of the options."""
    if line.options.keys() != drawn.keys():
        raise journal.of_another_tuning()
    return {name: line.options[name] for name in drawn}


def _draw(space: Space, experiment: Experiment, before: Sequence[Trial], judged: int) -> Setting:
    """Return the next setting: the defaults first, then what optuna suggests, none twice while others are left.

    The draw depends on the seed, its number and the trials of former generations alone: the same after any kill.
    """
    if not before:
        return first_setting(space, experiment)
    study = _study(experiment.seed * 1000 + len(before), space, before[:judged])
    taken = [trial.setting for trial in before]
    alike = _alike_for_all(space, experiment, len(before)) if not judged else {}
    for _ in range(_REDRAWS):
        asked = study.ask()
        drawn = {name: asked.suggest_categorical(name, values) for name, values in space.items()} | alike
        if drawn not in taken:
            return drawn
    return next(setting for setting in settings_in(space) if setting not in taken)


def _alike_for_all(space: Space, experiment: Experiment, number: int) -> Setting:
    """Return the choices of the first generation that are not drawn at random.

    The experiment's own fields, such as the learning rate, have the same values in the same order for every method, and
    options have their defaults while the nearest values are tried. Else a method could win by luck, and one with many
    options would lose for having them.
    """
    first = first_setting(space, experiment)
    alike = [name for name in space if name in {field for field, _ in dotted_fields(Experiment)}]
    found = dict(first) if number < max(_DEFAULTS_FIRST, 2 * len(space.get(NET, ()))) else {}
    orders = {name: _from_own(first[name], space[name]) for name in alike}
    turn, place = number % GENERATION, number % GENERATION
    if NET in orders:
        nets = orders.pop(NET)
        turn, place = divmod(place, len(nets))
        found[NET] = nets[place]
    nearest = {name: order[_NEAREST[turn] % len(order)] for name, order in orders.items()}
    return found | nearest | recipe(space, turn)


def _from_own(own: Any, values: Sequence[Any]) -> list[Any]:
    """Return the values to try, the experiment's own first, then of numbers the nearest by their ratio to it."""
    others = [value for value in values if value != own]
    numbers = all(isinstance(value, int | float) for value in (own, *others))
    return [own, *(sorted(others, key=partial(_nearest_first, own)) if numbers else others)]


def _nearest_first(own: float, value: float) -> tuple[float, bool]:
    """Return a key that orders values by their ratio to the experiment's own; of two with one, the larger first."""
    return round(abs(log(value / own)), 9), value < own


def _study(seed: int, space: Space, judged: Sequence[Trial]) -> Any:
    """Return an optuna study in memory that knows these trials."""
    try:
        import optuna
    except ImportError:
        raise MotetError("tuning needs optuna, which is not installed; install it with pip install optuna") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(seed=seed % 2**32, n_startup_trials=GENERATION)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    kinds: dict[str, Any] = {
        name: optuna.distributions.CategoricalDistribution(values) for name, values in space.items()
    }
    last = max((trial.rounds for trial in judged), default=0)
    for trial in judged:
        if trial.score is None or any(trial.setting[name] not in values for name, values in space.items()):
            continue
        whole = trial.rounds == last
        study.add_trial(
            optuna.trial.create_trial(
                params=trial.setting,
                distributions=kinds,
                value=_score(trial) if whole else None,
                intermediate_values={trial.rounds: _score(trial)},
                state=optuna.trial.TrialState.COMPLETE if whole else optuna.trial.TrialState.PRUNED,
            )
        )
    return study
