"""`motet.compare`, `motet.tune` and `motet.bench`, and what they share with the commands of the same names."""

import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from motet.api.choices import AnyPath, chosen, with_choices
from motet.api.comparison import PAGE, Comparison
from motet.api.tables import Table
from motet.config.experiment import Experiment, resolve
from motet.config.own_data import is_own_data, is_table
from motet.config.short_names import STUDY_CHOICES, engine_of
from motet.data.readers.in_memory import PREFIX, is_in_memory, place_of
from motet.errors import MotetError, shown
from motet.io.files import make_folder, refuse_special, writing
from motet.io.user_paths import user_path
from motet.metrics.registry import require_metrics
from motet.report.page import write_report
from motet.report.progress import StudyProgress, study_onlooker
from motet.report.tables.bench import draw_tables, figure_rows
from motet.studies.bench import BenchResults, run_bench
from motet.studies.bench_file import read_bench
from motet.studies.budget import MOST_SEEDS, MOST_TRIALS
from motet.studies.compare import SHORTLIST, CompareRequest, compare_methods
from motet.studies.folder import HANDED_OVER, read_file, write_file
from motet.studies.schedule import in_cluster
from motet.studies.tune import TuneRequest, TuningFile, tune_methods

Methods = str | Sequence[str]
Working = Callable[[Path], AbstractContextManager[None]]
"""Surrounds the work in a study's folder: the command line says how to go on where it is stopped."""


# -------- The functions


@with_choices(STUDY_CHOICES)
def compare(
    data: Any,
    *,
    methods: Methods | None = None,
    seeds: int | None = None,
    repeats: int | None = None,
    trials: int | None = None,
    time: str | None = None,
    yardsticks: bool | None = None,
    jobs: int = 0,
    out: AnyPath | None = None,
    set: Mapping[str, Any] | None = None,
    progress: bool = False,
    **choices: Any,
) -> Comparison:
    """Find which method to take on some data, as `motet compare` does, and return the comparison.

    Every method is tuned by as many trials on validation data, then run over the seeds and tested once. Interrupted
    and called again with the same arguments, it goes on where it was.

    Parameters
    ----------
    data
        A name of `motet list data`, a path, or data in memory as for `motet.run`.
    methods
        Names such as "fedavg,fedavg+ft" or a list of them, also of your own; default a shortlist.
    seeds, repeats, trials
        How many runs each method has in the end on each split of the clients' rows, how many such splits there are, and
        how many settings are tried for it before; None is what suits the data.
    time
        Do what fits into this time, such as "20m", and say what was left out.
    yardsticks
        Whether scikit-learn is measured on the same rows, pooled and alone; default for data of your own.
    jobs
        How many runs are computed at the same time; 0 is one per core.
    out
        The folder of the study; default runs/compare-DATA.
    set, progress
        As for `motet.run`.
    label, client, rounds, ...
        The short names of fields, which `motet compare --help` explains.

    >>> import motet, tempfile
    >>> found = motet.compare("digits", methods=["local", "fedavg"], trials=1, seeds=1, clients=4, rounds=2,
    ...                       jobs=1, out=tempfile.mkdtemp() + "/study")
    >>> found.recommended.method in ("local", "fedavg")
    True
    """
    effort = Effort(trials, seeds, repeats, time, yardsticks)
    with _experiment("compare", data, ending_by_validation(choices, set), set, out) as (experiment, folder):
        return compare_experiment(experiment, folder, methods, effort, jobs, _onlooker(progress))


@with_choices(STUDY_CHOICES)
def tune(
    data: Any,
    *,
    methods: Methods = "fedavg+ft",
    trials: int = 5,
    jobs: int = 0,
    out: AnyPath | None = None,
    set: Mapping[str, Any] | None = None,
    progress: bool = False,
    **choices: Any,
) -> Table:
    """Find good settings of methods on validation data alone, as `motet tune` does; return a row per method.

    A row has `method`, `score` on validation data, `options`, `expression` (the method with its options), `experiment`
    (a file for `motet.run`), `trials` and, where nothing was found, `failure`. The parameters are those of
    `motet.compare`; the folder is runs/tune-DATA by default.

    >>> import motet, tempfile
    >>> found = motet.tune("digits", methods="fedavg", trials=2, clients=4, rounds=2, jobs=1,
    ...                    out=tempfile.mkdtemp() + "/study")
    >>> found[0]["method"], found[0]["trials"]
    ('fedavg', 2)
    """
    with _experiment("tune", data, choices, set, out) as (experiment, folder):
        found = tune_experiment(experiment, folder, methods, trials, jobs, _onlooker(progress))
    return Table(
        {
            "method": each.method,
            "score": each.score,
            "options": each.options,
            "expression": each.expression,
            "experiment": None if each.experiment is None else folder / each.experiment,
            "trials": len(each.trials),
            "failure": each.failure,
        }
        for each in found.methods
    )


def bench(
    file: AnyPath,
    *,
    quick: bool = False,
    jobs: int = 0,
    out: AnyPath | None = None,
    record: AnyPath | None = None,
    progress: bool = False,
    engine: str | None = None,
    workers: int | None = None,
    ray_address: str | None = None,
) -> Table:
    """Run a grid of experiments that a file describes, as `motet bench` does; return a row per case and figure.

    A row has `case`, `method`, `data`, `figure`, `mean`, `std`, `seeds`, `rank` (1 is the best of its group) and
    `paper`, what the file says a paper has. The folder gets tables in Markdown, LaTeX and CSV.

    Parameters
    ----------
    file
        The bench file.
    quick
        One seed and a few rounds, to see that it runs.
    jobs, progress
        As for `motet.compare`.
    out
        The folder of the bench; default runs/bench-NAME.
    record
        A JSON file that gets the results too, after every run; runs that it has are not computed again.
    engine, workers, ray_address
        With `engine="ray"` runs are computed in a Ray cluster.

    >>> import motet, tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "grid.toml").write_text('''
    ... name = "small"
    ... figures = ["generic.accuracy"]
    ... [setting]
    ... clients = 4
    ... [grid]
    ... method = ["fedavg", "scaffold"]
    ... ''')
    >>> rows = motet.bench(folder / "grid.toml", quick=True, jobs=1, out=folder / "bench")
    >>> [row["case"] for row in rows]
    ['fedavg', 'scaffold']
    """
    _, results = bench_file(
        user_path(file, "bench file"),
        jobs,
        quick,
        None if out is None else user_path(out, "out"),
        None if record is None else user_path(record, "record"),
        _onlooker(progress),
        engine=engine_of({"engine": engine, "workers": workers, "ray_address": ray_address}),
    )
    return Table(figure_rows(results))


# -------- Shared with the command line

SPLITS, SEEDS, TRIALS, TABLE_TRIALS = 3, 3, 5, 6
"""How often rows are split, training is seeded, and settings are tried, where the user does not say."""


def ending_by_validation(choices: Mapping[str, Any], settings: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the choices of a comparison, whose rounds end by themselves unless a number or a protocol is named."""
    named = {"rounds", "rounds.count", "protocol"}
    named_there = settings if isinstance(settings, Mapping) else {}  # anything else is refused later, in a sentence
    chosen = {name for name, value in {**named_there, **choices}.items() if value is not None}
    return dict(choices) if named & chosen else {**choices, "rounds": "auto"}


LookOn = Callable[[int], AbstractContextManager[StudyProgress]]


@dataclass(frozen=True)
class Effort:
    """How much a comparison does: None is what suits the data."""

    trials: int | None = None
    seeds: int | None = None
    repeats: int | None = None
    time: str | None = None
    yardsticks: bool | None = None

    def of(self, experiment: Experiment, prefix: str) -> dict[str, Any]:
        """Return the numbers for an experiment, or raise a sentence about one that makes no sense.

        Rows of a user's own clients are split several times, since most of the chance is in which rows are tested. Data
        by name have the split and the clients with which papers are compared, so that seeds vary the training.
        """
        data, own = experiment.data, is_own_data(experiment.data.name)
        natural = data.client is not None and data.partition == "natural" and not data.resplit
        splits_again = own and natural and data.time_column is None and data.test_share > 0
        repeats = self.repeats if self.repeats is not None else SPLITS if splits_again else 1
        if repeats > 1 and data.time_column is not None:
            raise MotetError(
                f"{prefix}repeats is {repeats}, but data.time_column says which rows are tested, so that there is one "
                f"split of them; accepted: 1, or {prefix}seeds for several runs on it"
            )
        seeds = self.seeds if self.seeds is not None else 1 if repeats > 1 else SEEDS
        trials = self.trials if self.trials is not None else TABLE_TRIALS if is_table(data.name) else TRIALS
        return {
            "trials": at_least_one(f"{prefix}trials", trials),
            "seeds": at_least_one(f"{prefix}seeds", seeds, MOST_SEEDS),
            "repeats": at_least_one(f"{prefix}repeats", repeats, MOST_SEEDS),
            "yardsticks": own if self.yardsticks is None else self.yardsticks,
            "seconds": None if self.time is None else seconds_of(self.time, prefix),
        }


def compare_experiment(
    experiment: Experiment,
    folder: Path,
    methods: Methods | None,
    effort: Effort,
    jobs: int,
    look_on: LookOn,
    prefix: str = "",
) -> Comparison:
    """Compare methods, write the page, and return the comparison; `prefix` is put before names of options in errors."""
    require_metrics(experiment.scoring.metrics)  # they are needed only after the tuning, but should fail before it
    if not experiment.scoring.looks_at_test:
        raise MotetError(
            "scoring.test is 'none', but methods are compared on test data; accepted: auto, common or split (tuning "
            "looks at validation data alone)"
        )
    names = SHORTLIST if methods is None else method_names(methods, prefix)
    asked = CompareRequest(experiment, names, **effort.of(experiment, prefix))
    with in_cluster(experiment.engine, jobs_at_once(jobs, prefix)) as at_once:
        compare_methods(asked, folder, at_once, look_on)
    write_report([folder], folder / PAGE)
    return Comparison(folder)


def tune_experiment(
    experiment: Experiment,
    folder: Path,
    methods: Methods,
    trials: int,
    jobs: int,
    look_on: LookOn,
    prefix: str = "",
) -> TuningFile:
    """Tune methods and return what was found; `prefix` is put before names of options in errors."""
    require_metrics(experiment.scoring.metrics)
    asked = TuneRequest(experiment, method_names(methods, prefix), at_least_one(f"{prefix}trials", trials))
    with in_cluster(experiment.engine, jobs_at_once(jobs, prefix)) as at_once:
        return tune_methods(asked, folder, at_once, look_on)


def bench_file(
    file: Path,
    jobs: int,
    quick: bool,
    out: Path | None,
    record: Path | None,
    look_on: LookOn,
    prefix: str = "",
    working: Working | None = None,
    engine: Mapping[str, Any] | None = None,
) -> tuple[Path, BenchResults]:
    """Run a bench file; return its folder and the results, which are also written to `record` if it is given.

    Runs that `record` has from earlier calls are not computed again, wherever they were computed.

    `engine` has settings of [engine]: with the name `ray`, runs are computed in a cluster.
    """
    bench = read_bench(file)
    if record:
        refuse_special(record)  # before hours of computing
    before = read_file(record, BenchResults) if record and record.exists() else None

    def draw(results: BenchResults, folder: Path) -> None:
        draw_tables(results, folder)
        if record and (before is None or before.is_part_of(results)):
            write_file(record, results)

    words = f"bench-{bench.name}{'-quick' if quick else ''}"
    folder = out or Path("runs") / _safe(words, "bench")
    many = jobs_at_once(jobs, prefix)
    where = resolve({"engine": engine or {}}).engine
    with working(folder) if working else nullcontext(), in_cluster(where, many) as at_once:
        results = run_bench(bench, folder, at_once, look_on, quick, draw, before)
    if record:
        write_file(record, results)
    return folder, results


def method_names(given: Methods, prefix: str = "") -> tuple[str, ...]:
    """Return the names of a list, or of a text with commas between them; commas in brackets belong to a method."""
    if isinstance(given, str):
        names = [name.strip() for name in re.split(r",(?![^()]*\))", given)]
    else:
        names = [name.strip() if isinstance(name, str) else "" for name in given]
    if not names or not all(names):
        raise MotetError(
            f"{prefix}methods is {shown(given)}; accepted: names with commas between them, such as fedavg,fedavg+ft"
        )
    return tuple(names)


def seconds_of(text: str, prefix: str = "--") -> float:
    """Return the seconds of a time such as 90s, 20m, 2h or 1h30m."""
    found = re.fullmatch(r"(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,6})s)?", str(text).strip(), re.ASCII)
    seconds = sum(int(n or 0) * unit for n, unit in zip(found.groups(), (3600, 60, 1), strict=True)) if found else 0
    if not seconds:
        raise MotetError(f"{prefix}time is {text!r}; accepted: hours, minutes and seconds, such as 20m, 90s or 1h30m")
    return float(seconds)


def at_least_one(option: str, value: int, most: int = MOST_TRIALS) -> int:
    """Return a count that an option gives; raise a MotetError if it is not between 1 and `most`."""
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise MotetError(f"{option} is {shown(value)}; accepted: a whole number from 1 to {most}")
    return value


def jobs_at_once(asked: int, prefix: str = "") -> int:
    """Return how many runs are asked to be computed at the same time; 0 where nobody asked for a number."""
    return 0 if asked == 0 else at_least_one(f"{prefix}jobs", asked, 1024)


def default_folder(kind: str, experiment: Experiment) -> Path:
    """Return the default folder of a study, which is the same for the same command, so that it can be continued."""
    return Path("runs") / _safe(f"{kind}-{Path(experiment.data.name).stem}", kind)


def _safe(words: str, otherwise: str) -> str:
    return re.sub(r"[^A-Za-z0-9.+=_-]+", "-", words).strip("-.")[:100] or otherwise


@contextmanager
def _experiment(
    kind: str, data: Any, choices: Mapping[str, Any], set: Mapping[str, Any] | None, out: AnyPath | None
) -> Iterator[tuple[Experiment, Path]]:
    """Yield the experiment of a study and its folder; data in memory are stored in a file of that folder."""
    if "method" in choices:
        raise MotetError(f'{kind} takes several methods, not one; accepted: methods = such as "fedavg,fedavg+ft"')
    with chosen({**choices, "data": data}, None, set) as experiment:
        folder = default_folder(kind, experiment) if out is None else user_path(out, "out")
        if is_in_memory(experiment.data.name):
            kept = _kept_with_the_study(experiment.data.name, folder)
            section = experiment.data.model_copy(update={"name": str(kept)})
            experiment = experiment.model_copy(update={"data": section})
        yield experiment, folder


def _kept_with_the_study(name: str, folder: Path) -> Path:
    """Copy data in memory into the study's folder, once for all its runs, and return where they are."""
    if folder.exists() and not folder.is_dir():
        raise MotetError(f"output folder {folder} is a file; choose another out")
    place = place_of(name)
    kept = folder / f"{HANDED_OVER}{name.removeprefix(PREFIX)}{place.suffix}"
    if not kept.exists():
        make_folder(folder)
        half = kept.with_suffix(".tmp")
        with writing(kept):
            shutil.copyfile(place, half)
            half.replace(kept)
    return kept


def _onlooker(progress: bool) -> LookOn:
    def look_on(total: int) -> StudyProgress:
        return study_onlooker(Console(stderr=True, quiet=not progress), total)

    return look_on
