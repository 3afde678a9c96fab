"""Read folders into the data of a page: which runs form one contender, its label, and which one is the best."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from motet.config.identity import field_of
from motet.errors import MotetError
from motet.io.text import printable, shortened
from motet.metrics.over_clients import worse_off
from motet.report.finished import Finished, read_finished
from motet.report.page.contents import Contender, PageContents, ReportedRun, options_text
from motet.report.tables.runs import best_of, differing_lines, is_yardstick, title_of
from motet.report.tables.seeds import TableLine, by_seed
from motet.runs.local_baseline import LOCAL, same_clients
from motet.runs.record import Record
from motet.runs.rows import Row
from motet.studies.comparison_file import is_comparison, read_comparison

LONGEST_LABEL = 44


def contents_of(folders: Sequence[Path]) -> PageContents:
    """Read run folders, folders of such, or one folder of a comparison; return what a page shows of them."""
    compared = [folder for folder in folders if is_comparison(folder)]
    if len(compared) > 1 or (compared and len(folders) > 1):
        raise MotetError(
            f"{compared[0]} is a comparison and stands alone; accepted: one comparison, or folders of runs"
        )
    if compared:
        return _of_comparison(compared[0])
    runs, left_out = _read([inside for folder in folders for inside in _runs_in(folder)])
    lines = sorted(by_seed([each.finished for each in runs]), key=_from_the_best)
    differing = differing_lines(lines)
    by_folder = {each.finished.folder: each for each in runs}
    labels = _labels(lines, differing)
    contenders = tuple(
        Contender(label, i, tuple(by_folder[run.folder] for run in line.runs))
        for i, (label, line) in enumerate(zip(labels, lines, strict=True))
    )
    best = best_of(lines, differing)
    found = next((c for c, line in zip(contenders, lines, strict=True) if line is best), None)
    return PageContents(title_of(lines, differing), contenders, None, left_out, found)


def _of_comparison(folder: Path) -> PageContents:
    comparison = read_comparison(folder)
    contenders: list[Contender] = []
    runs, left_out = _read([folder / run for method in comparison.methods for run in method.runs])
    by_folder = {each.finished.folder: each for each in runs}
    names = [method.method for method in comparison.methods]
    for method in sorted(comparison.methods, key=lambda m: -comparison.judged_by.direction * m.personal.mean):
        found = tuple(by_folder[folder / run] for run in method.runs if folder / run in by_folder)
        if found:
            twin = names.count(method.method) > 1 and method.options
            label = f"{method.method} ({options_text(method.options)})" if twin else method.method
            contenders.append(Contender(_short(label), len(contenders), found, method))
    lines = [contender.line for contender in contenders]
    return PageContents(title_of(lines, differing_lines(lines)), tuple(contenders), comparison, left_out)


def _from_the_best(line: TableLine) -> float:
    """Return a sort key that puts the best first, and references and methods without a figure last."""
    values = line.headline().values()
    return float("inf") if is_yardstick(line) or not values else -line.first.metric.direction * fmean(values)


def _runs_in(folder: Path) -> list[Path]:
    """Return the folder itself if it is a run, else the runs in it."""
    inside = sorted(path.parent for path in folder.glob("*/experiment.toml"))
    return [folder] if (folder / "experiment.toml").exists() or not inside else inside


def _read(folders: Sequence[Path]) -> tuple[list[ReportedRun], tuple[str, ...]]:
    """Return every finished run, compared with Local on the same clients, and a sentence for each that is damaged."""
    found: list[ReportedRun] = []
    wrong: list[MotetError] = []
    for folder in dict.fromkeys(folders):
        try:
            found.append(_reported(read_finished(folder)))
        except MotetError as error:
            wrong.append(error)
    if not found:
        raise wrong[0] if wrong else MotetError("no run to report; accepted: folders of finished runs")
    return [_beside_local(each, found) for each in found], tuple(printable(error) for error in wrong)


def _reported(run: Finished) -> ReportedRun:
    record, reported = Record(run.folder), run.summary.reported.round
    kinds: dict[bool, dict[int, Row]] = {False: {}, True: {}}
    for row in record.clients_of(reported):
        if not (run.headline.among and row.get("malicious")):
            kinds[row["new"]][row["client"]] = row
    return ReportedRun(run, record.rounds, kinds[False], kinds[True])


def _beside_local(run: ReportedRun, all_runs: Sequence[ReportedRun]) -> ReportedRun:
    """Return the run with the number of clients that Local serves better, where there is a run of Local."""
    mine = run.finished.experiment
    locals_ = [each for each in all_runs if each.finished.experiment.method == LOCAL]
    local = next((each for each in locals_ if same_clients(each.finished.experiment, mine)), None)
    if local is None or mine.method == LOCAL:
        return run
    pairs = [(run.own(client), local.own(client)) for client in run.clients]
    both = [(a, b) for a, b in pairs if a is not None and b is not None]
    figures = worse_off(run.finished.headline, both, "hurt_vs_local", run.finished.metric.higher_is_better)
    summary = run.finished.summary.model_copy(update={"figures": run.finished.summary.figures | figures})
    return replace(run, finished=replace(run.finished, summary=summary))


def _labels(lines: Sequence[TableLine], differing: Sequence[str]) -> list[str]:
    """Return each line's method; where that is not enough, with the fields in which they differ, then the folder."""
    methods = [line.first.method for line in lines]
    if len(set(methods)) == len(methods):
        return [_short(method) for method in methods]

    def words(line: TableLine) -> str:
        fields = (f"{name.rpartition('.')[2]} {printable(field_of(line.first.experiment, name))}" for name in differing)
        return ", ".join([line.first.method, *fields])

    labels = [words(line) for line in lines]
    twins = [label for label in labels if labels.count(label) > 1]
    return [
        _short(f"{label}, {line.first.name}" if label in twins else label)
        for label, line in zip(labels, lines, strict=True)
    ]


def _short(label: str) -> str:
    return shortened(printable(label), LONGEST_LABEL)
