"""`motet run`, `motet resume`, `motet show`."""

from collections.abc import Callable, Sequence
from pathlib import Path

from motet.cli.console import messages, note, output, write_json
from motet.cli.stopped import told_how_to_go_on
from motet.errors import MotetError
from motet.report.progress import Onlooker, onlooker
from motet.report.tables import Finished, comparison
from motet.runs import run as runs
from motet.runs.beside_local import LOCAL, beside_local, local_among
from motet.runs.experiment import Experiment
from motet.runs.record import Record


def run_and_show(experiment: Experiment, out: Path | None, json: bool) -> None:
    """Run an experiment and show its figures."""
    _watch_and_show(lambda watcher: runs.run(experiment, out, watcher), out, json)


def resume_and_show(folder: Path, json: bool, trust_code: bool = False) -> None:
    """Continue a run and show its figures."""
    _watch_and_show(lambda watcher: runs.resume(folder, watcher, trust_code), folder, json)


def show_runs(folders: Sequence[Path], json: bool, local: Path | None = None) -> None:
    """Show finished runs side by side."""
    found = side_by_side([folder for given in folders for folder in run_folders(given)], local)
    if json:
        write_json([run.summary for run in found])
    else:
        output().print(comparison(found))


def side_by_side(folders: Sequence[Path], local: Path | None = None) -> list[Finished]:
    """Finished runs, each beside a run of `local` on the same clients: the one that is named, or one of them."""
    records = [Record(folder) for folder in folders]
    alone = [Record(local) if local else local_among(records, record) for record in records]
    return [finished(folder, other) for folder, other in zip(folders, alone, strict=True)]


def finished(folder: Path, local: Record | None = None) -> Finished:
    """A finished run as a table needs it, with what a run of `local` says about it if there is one."""
    record = Record(folder)
    summary = record.summary
    if "figures" not in summary:
        raise MotetError(f"the summary of run {folder} is of an older Motet and has no figures; run it anew")
    beside = local is not None and record.experiment.method != LOCAL
    return Finished(folder.name, record.experiment, beside_local(record, local) if local and beside else summary)


def run_folders(folder: Path) -> list[Path]:
    """The folder itself if it is a run, else the finished runs in it; a note names those that are not."""
    inside = sorted(path.parent for path in folder.glob("*/experiment.toml"))
    if (folder / "experiment.toml").exists() or not inside:
        return [folder]  # whatever is wrong with it, its record says so
    done = [path for path in inside if Record(path).finished and _readable(path)]
    for path in inside:
        if not Record(path).finished:
            note(f"not finished: {path} (continue it with `motet resume {path}`)")
    if not done:
        raise MotetError(f"no run in {folder} is finished; continue one with `motet resume {inside[0]}`")
    return done


def _readable(folder: Path) -> bool:
    """Whether a finished run can be shown; a note says why not, so that one does not hide the others."""
    try:
        finished(folder)
    except MotetError as error:
        note(f"left out: {error}")
        return False
    return True


def _watch_and_show(work: Callable[[Onlooker], Path], known: Path | None, json: bool) -> None:
    with onlooker(messages()) as watcher, told_how_to_go_on(lambda: _way_on(watcher.folder or known)):
        folder = work(watcher)
    run = finished(folder)
    if run.summary["set_aside"]:
        note(f"warning: {run.summary['set_aside']} trainings diverged and were set aside; rounds.jsonl names them")
    if json:
        note(f"recorded in {folder}")
        write_json(run.summary)
    else:
        output().print(comparison([run]))
        output().print(f"Recorded in {folder}", markup=False, soft_wrap=True)


def _way_on(folder: Path | None) -> str:
    if folder and (folder / "experiment.toml").exists():
        return f"stopped; continue with `motet resume {folder}`"
    return "stopped before the run began; nothing was recorded"
