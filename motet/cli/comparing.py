"""`motet tune`, `motet compare` and `motet bench`: the functions of `motet.api.studies`, shown on a terminal."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from motet.api.studies import Effort, bench_file, compare_experiment, default_folder, tune_experiment
from motet.cli.console import messages, note, output, write_json
from motet.cli.process import told_how_to_go_on
from motet.config.experiment import Experiment
from motet.io.text import printable
from motet.report.progress import StudyProgress, study_onlooker
from motet.report.tables.bench import bench_table
from motet.report.tables.compared import compared_table, tuned_table

PREFIX = "--"


def tune_and_show(experiment: Experiment, methods: str, trials: int, jobs: int, out: Path | None, json: bool) -> None:
    """Tune methods and show what was found."""
    folder = out or default_folder("tune", experiment)
    with _going_on(folder):
        found = tune_experiment(experiment, folder, methods, trials, jobs, _look_on, PREFIX)
    if json:
        note(f"recorded in {folder}")
        write_json(found.model_dump())
    else:
        output().print(tuned_table(found))
        output().print(printable(f"Recorded in {folder}"), markup=False, soft_wrap=True)


def compare_and_show(
    experiment: Experiment,
    methods: str | None,
    effort: Effort,
    jobs: int,
    out: Path | None,
    json: bool,
) -> None:
    """Compare methods and show which to take."""
    folder = out or default_folder("compare", experiment)
    with _going_on(folder):
        found = compare_experiment(experiment, folder, methods, effort, jobs, _look_on, PREFIX)
    if json:
        note(f"recorded in {folder}")
        write_json({**found.file.model_dump(include={"recommended", "methods"}), "report": str(found.report)})
        return
    output().print(compared_table(found.file))
    way_on = f"`motet export {folder} --out models` trains the recommended models on all rows and writes them"
    again = f"`motet run {found.recommended.experiment}` runs the recommended experiment"
    words = f"Recorded in {folder}; the report is {found.report}. {way_on}; {again}."
    output().print(printable(words), markup=False, soft_wrap=True)


def bench_and_show(
    file: Path,
    jobs: int,
    quick: bool,
    out: Path | None,
    record: Path | None,
    json: bool,
    engine: Mapping[str, Any] | None = None,
) -> None:
    """Run a bench file and show its table; `engine` has settings of [engine], for a cluster."""
    folder, found = bench_file(file, jobs, quick, out, record, _look_on, PREFIX, _going_on, engine)
    if json:
        note(f"recorded in {folder}")
        write_json(found.model_dump())
        return
    output().print(bench_table(found))
    tables = ", ".join(str(folder / f"table.{kind}") for kind in ("md", "tex", "csv"))
    output().print(printable(f"Recorded in {folder}; tables: {tables}"), markup=False, soft_wrap=True)


def _look_on(total: int) -> StudyProgress:
    return study_onlooker(messages(), total)


def _going_on(folder: Path) -> AbstractContextManager[None]:
    """Return a block in which Ctrl-C says how to continue the study."""
    return told_how_to_go_on(lambda: f"stopped; the same command goes on where it was ({folder} has what is finished)")
