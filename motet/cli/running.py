"""`motet run`, `motet resume`, `motet show` and `motet measure`."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from motet.cli.console import messages, note, output, write_json
from motet.cli.looking import page_at_the_end
from motet.cli.process import told_how_to_go_on
from motet.config.experiment import Experiment
from motet.errors import MotetError
from motet.io.locks import is_running
from motet.io.text import printable
from motet.report.finished import Finished, read_finished
from motet.report.progress import onlooker
from motet.report.tables.clients import client_tables, clients_json
from motet.report.tables.compared import compared_table
from motet.report.tables.layout import Prose
from motet.report.tables.metrics import measured_table
from motet.report.tables.runs import comparison
from motet.runs import run as runs
from motet.runs.local_baseline import local_among
from motet.runs.measure_again import measure_again
from motet.runs.record import Record
from motet.studies.comparison_file import is_comparison, read_comparison
from motet.track import tracked


def run_and_show(experiment: Experiment, out: Path | None, json: bool, track: Sequence[str] = ()) -> None:
    """Run an experiment and show its figures; `track` names logs that other programs show."""
    _watch_and_show(lambda watcher: runs.run(experiment, out, watcher), out, json, track)


def resume_and_show(
    folder: Path,
    json: bool,
    trust_code: bool = False,
    track: Sequence[str] = (),
    engine: Mapping[str, Any] | None = None,
) -> None:
    """Continue a run from its last checkpoint and print its figures; `engine` has other settings of [engine]."""
    _watch_and_show(lambda watcher: runs.resume(folder, watcher, trust_code, engine), folder, json, track)


def show_runs(
    folders: Sequence[Path], json: bool, local: Path | None = None, each: bool = False, clients: bool = False
) -> None:
    """Show finished runs side by side, or client by client; a note names what cannot be shown.

    The folder of a comparison is shown as `motet compare` printed it, or, where more is asked, by its last runs.
    """
    if len(folders) == 1 and is_comparison(folders[0]) and not (local or each or clients):
        answer = read_comparison(folders[0])
        if json:
            write_json(answer.model_dump(mode="json"))
        else:
            output().print(compared_table(answer))
        return
    given_runs = [folder / "runs" if is_comparison(folder) else folder for folder in folders]
    found = side_by_side([folder for given in given_runs for folder in run_folders(given)], local)
    if clients:
        alone = read_finished(local) if local else None
        if json:
            write_json(clients_json(found, alone))
        else:
            output().print(client_tables(found, alone))
    elif json:
        write_json([run.summary.model_dump() for run in found])
    else:
        output().print(comparison(found, each))
        for sentence in dict.fromkeys(text for run in found for text in run.summary.notes):
            output().print(Prose(printable(f"Note: {sentence}."), "dim"))


def measure_and_show(folder: Path, names: Sequence[str], trust_code: bool, json: bool) -> None:
    """Measure the last models of a finished run, and show what was found."""
    found = measure_again(Record(folder), names, trust_code)
    for sentence in found.notes:
        note(sentence)
    figures = found.figures | found.training
    if json:
        write_json(figures)
    else:
        output().print(measured_table(figures))


def side_by_side(folders: Sequence[Path], local: Path | None = None) -> list[Finished]:
    """Return finished runs, each compared with a run of `local` on the same clients: the named one, or one of them.

    Runs that cannot be shown are left out with a note; if none can, the first one's error is raised.
    """
    found: list[Finished] = []
    wrong: list[MotetError] = []
    for folder in folders:
        try:
            found.append(read_finished(folder))
        except MotetError as error:
            wrong.append(error)
    if not found:
        raise wrong[0]
    for why in wrong:
        note(f"left out: {why}")
    records = [Record(run.folder) for run in found]
    alone = [Record(local) if local else local_among(records, record) for record in records]
    return [read_finished(run.folder, other) if other else run for run, other in zip(found, alone, strict=True)]


def run_folders(folder: Path) -> list[Path]:
    """Return the folder itself if it is a run, else the finished runs in it; a note names the unfinished ones."""
    inside = sorted(path.parent for path in folder.glob("*/experiment.toml"))
    if (folder / "experiment.toml").exists() or not inside:
        return [folder]  # reading its record gives the error if it is damaged
    done = [path for path in inside if Record(path).finished]
    if not done:
        raise MotetError(f"no run in {folder} is finished; {_unfinished(inside[0])}")
    for path in inside:
        if path not in done:
            note(_unfinished(path))
    return done


def _unfinished(folder: Path) -> str:
    """Return a sentence about how far an unfinished run is, and how to continue it if no process computes it."""
    if not is_running(folder):
        return f"not finished: {folder} (continue it with `motet resume {folder}`)"
    try:
        return f"still running: {folder} ({Record(folder).how_far})"
    except MotetError as error:
        return f"still running: {folder} ({error})"


def _watch_and_show(work: Callable[[runs.Watcher], Path], known: Path | None, json: bool, track: Sequence[str]) -> None:
    with (
        onlooker(messages()) as watcher,
        told_how_to_go_on(lambda: _way_on(watcher.folder or known)),
        tracked(watcher, track, note) as logged,
    ):
        folder = work(logged)
        logged.finished(folder)
    run = read_finished(folder)
    if run.summary.set_aside:
        note(f"warning: {run.summary.set_aside} trainings diverged and were set aside; rounds.jsonl names them")
    for text in run.summary.warnings:
        note(f"warning: {text}")
    for text in run.summary.notes:
        note(f"note: {text}")
    if json:
        note(f"recorded in {folder}")
        write_json(run.summary.model_dump())
    else:
        output().print(comparison([run]))
        output().print(printable(f"Recorded in {folder}"), markup=False, soft_wrap=True)
    page_at_the_end([folder], folder)


def _way_on(folder: Path | None) -> str:
    if folder and (folder / "experiment.toml").exists():
        return f"stopped; continue with `motet resume {folder}`"
    return "stopped before the run began; nothing was recorded"
