"""`motet tune`, `motet compare`, `motet bench`."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from motet.cli.console import messages, note, output, write_json
from motet.cli.process import told_how_to_go_on
from motet.config.experiment import Experiment
from motet.engines.registry import cores
from motet.errors import MotetError
from motet.io.files import refuse_special
from motet.io.text import printable
from motet.metrics.registry import require_metrics
from motet.report.progress import StudyProgress, study_onlooker
from motet.report.tables.bench import bench_table
from motet.report.tables.compared import compared_table
from motet.report.tables.tuned import tuned_table
from motet.studies import compare
from motet.studies.bench import run_bench
from motet.studies.bench_file import read_bench
from motet.studies.budget import MOST_SEEDS, MOST_TRIALS
from motet.studies.folder import write_json as study_json
from motet.studies.tune import TuneRequest, tune_methods


def tune_and_show(experiment: Experiment, methods: str, trials: int, jobs: int, out: Path | None, json: bool) -> None:
    """Tune methods and show what was found."""
    require_metrics(experiment.scoring.metrics)
    asked = TuneRequest(experiment, method_names(methods), at_least_one("--trials", trials))
    folder = out or default_folder("tune", experiment)
    with told_how_to_go_on(lambda: way_on(folder)):
        result = tune_methods(asked, folder, jobs_at_once(jobs), _look_on)
    if json:
        note(f"recorded in {folder}")
        write_json(result)
    else:
        output().print(tuned_table(result))
        output().print(printable(f"Recorded in {folder}"), markup=False, soft_wrap=True)


def compare_and_show(
    experiment: Experiment,
    methods: str | None,
    trials: int,
    seeds: int,
    time: str | None,
    jobs: int,
    out: Path | None,
    json: bool,
) -> None:
    """Compare methods and show which to take."""
    require_metrics(experiment.scoring.metrics)  # which are asked for after all tuning
    if not experiment.scoring.looks_at_test:
        raise MotetError(
            "scoring.test is 'none', but methods are compared on test data; accepted: auto, common or split (tuning "
            "looks at validation data alone)"
        )
    asked = compare.CompareRequest(
        experiment,
        method_names(methods) if methods is not None else compare.SHORTLIST,
        at_least_one("--trials", trials),
        at_least_one("--seeds", seeds, MOST_SEEDS),
        None if time is None else seconds_of(time),
    )
    folder = out or default_folder("compare", experiment)
    with told_how_to_go_on(lambda: way_on(folder)):
        result = compare.compare_methods(asked, folder, jobs_at_once(jobs), _look_on)
    if json:
        note(f"recorded in {folder}")
        write_json({name: result[name] for name in ("recommended", "methods", "report")})
        return
    output().print(compared_table(result))
    output().print(printable(_where(folder, result["report"])), markup=False, soft_wrap=True)


def bench_and_show(file: Path, jobs: int, quick: bool, out: Path | None, record: Path | None, json: bool) -> None:
    """Run a bench file and show its table."""
    bench = read_bench(file)
    if record:
        refuse_special(record)  # before hours of computing
    words = f"bench-{bench.name}{'-quick' if quick else ''}"
    folder = out or Path("runs") / re.sub(r"[^A-Za-z0-9.+=_-]+", "-", words).strip("-.")[:100]
    with told_how_to_go_on(lambda: way_on(folder)):
        result = run_bench(bench, folder, jobs_at_once(jobs), _look_on, quick)
    if record:
        study_json(record, result)
    if json:
        note(f"recorded in {folder}")
        write_json(result)
        return
    output().print(bench_table(result))
    tables = ", ".join(str(folder / f"table.{kind}") for kind in ("md", "tex", "csv"))
    output().print(printable(f"Recorded in {folder}; tables: {tables}"), markup=False, soft_wrap=True)


def _where(folder: Path, report: str | None) -> str:
    page = f"; the report is {report}" if report else ""
    return f"Recorded in {folder}{page}. `motet run {folder / 'recommended.toml'}` runs the recommended experiment."


def seconds_of(text: str) -> float:
    """Such as 90s, 20m, 2h or 1h30m."""
    found = re.fullmatch(r"(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,6})s)?", text.strip(), re.ASCII)
    seconds = sum(int(n or 0) * unit for n, unit in zip(found.groups(), (3600, 60, 1), strict=True)) if found else 0
    if not seconds:
        raise MotetError(f"--time is {text!r}; accepted: hours, minutes and seconds, such as 20m, 90s or 1h30m")
    return float(seconds)


@contextmanager
def _look_on(total: int) -> Iterator[StudyProgress]:
    with study_onlooker(messages(), total) as progress:
        yield progress


def method_names(text: str) -> tuple[str, ...]:
    """Names with commas between them; a comma in brackets belongs to its method."""
    names = [name.strip() for name in re.split(r",(?![^()]*\))", text)]
    if not all(names):
        raise MotetError(f"--methods is {text!r}; accepted: names with commas between them, such as fedavg,fedavg+ft")
    return tuple(names)


def at_least_one(option: str, value: int, most: int = MOST_TRIALS) -> int:
    """A count that an option gives."""
    if not 1 <= value <= most:
        raise MotetError(f"{option} is {value}; accepted: a whole number from 1 to {most}")
    return value


def jobs_at_once(asked: int) -> int:
    """How many runs are computed at the same time: as many as asked for, or one per core."""
    return cores() if asked == 0 else at_least_one("--jobs", asked, 1024)


def default_folder(kind: str, experiment: Experiment) -> Path:
    """The same for the same command, so that it goes on where it stopped."""
    words = f"{kind}-{Path(experiment.data.name).stem}"
    return Path("runs") / (re.sub(r"[^A-Za-z0-9.+=_-]+", "-", words).strip("-.")[:100] or kind)


def way_on(folder: Path) -> str:
    """What a user is told who stopped a study."""
    return f"stopped; the same command goes on where it was ({folder} has what is finished)"
