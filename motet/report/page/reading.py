"""From folders to a story: which runs are one contender, what each is called, which one is the best."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from motet.errors import MotetError
from motet.io.text import printable, shortened
from motet.metrics.over_clients import worse_off
from motet.report.finished import Finished, read_finished
from motet.report.page.comparison_file import is_comparison, read_comparison
from motet.report.page.story import Contender, Story, Told
from motet.report.tables.runs import best_of, differing_lines, field_of, is_yardstick, title_of
from motet.report.tables.seeds import TableLine, by_seed
from motet.runs.local_baseline import LOCAL, same_clients
from motet.runs.record import Record
from motet.runs.rows import Row

LONGEST_LABEL = 44


def story_of(folders: Sequence[Path]) -> Story:
    """Of run folders, folders of such, and at most one folder of a comparison."""
    compared = [folder for folder in folders if is_comparison(folder)]
    if len(compared) > 1 or (compared and len(folders) > 1):
        raise MotetError(
            f"{compared[0]} is a comparison and stands alone; accepted: one comparison, or folders of runs"
        )
    if compared:
        return _of_comparison(compared[0])
    told, left_out = _read([inside for folder in folders for inside in _runs_in(folder)])
    lines = sorted(by_seed([each.run for each in told]), key=_from_the_best)
    differing = differing_lines(lines)
    by_folder = {each.run.folder: each for each in told}
    labels = _labels(lines, differing)
    contenders = tuple(
        Contender(label, i, tuple(by_folder[run.folder] for run in line.runs))
        for i, (label, line) in enumerate(zip(labels, lines, strict=True))
    )
    best = best_of(lines, differing)
    found = next((c for c, line in zip(contenders, lines, strict=True) if line is best), None)
    return Story(title_of(lines, differing), contenders, None, left_out, found)


def _of_comparison(folder: Path) -> Story:
    comparison = read_comparison(folder)
    contenders: list[Contender] = []
    told, left_out = _read([run for method in comparison.methods for run in method.runs])
    by_folder = {each.run.folder: each for each in told}
    names = [method.method for method in comparison.methods]
    for method in sorted(comparison.methods, key=lambda m: -m.personal.mean if m.personal else 1.0):
        found = tuple(by_folder[run] for run in method.runs if run in by_folder)
        if found:
            twin = names.count(method.method) > 1 and method.options
            label = f"{method.method} ({method.options})" if twin else method.method
            contenders.append(Contender(_short(label), len(contenders), found, method))
    lines = [contender.line for contender in contenders]
    return Story(title_of(lines, differing_lines(lines)), tuple(contenders), comparison, left_out)


def _from_the_best(line: TableLine) -> float:
    """Yardsticks last, and who has no figure."""
    values = line.headline().values()
    return 1.0 if is_yardstick(line) or not values else -fmean(values)


def _runs_in(folder: Path) -> list[Path]:
    """The folder itself if it is a run, else the runs in it."""
    inside = sorted(path.parent for path in folder.glob("*/experiment.toml"))
    return [folder] if (folder / "experiment.toml").exists() or not inside else inside


def _read(folders: Sequence[Path]) -> tuple[list[Told], tuple[str, ...]]:
    """Every finished run, beside Local's on the same clients; a sentence for each that cannot be shown."""
    found: list[Told] = []
    wrong: list[MotetError] = []
    for folder in dict.fromkeys(folders):
        try:
            found.append(_told(read_finished(folder)))
        except MotetError as error:
            wrong.append(error)
    if not found:
        raise wrong[0] if wrong else MotetError("no run to report; accepted: folders of finished runs")
    return [_beside_local(each, found) for each in found], tuple(printable(error) for error in wrong)


def _told(run: Finished) -> Told:
    record, reported = Record(run.folder), run.summary.reported.round
    kinds: dict[bool, dict[int, Row]] = {False: {}, True: {}}
    for row in record.clients_of(reported):
        if not (run.headline.among and row.get("malicious")):
            kinds[row["new"]][row["client"]] = row
    return Told(run, record.rounds, kinds[False], kinds[True])


def _beside_local(told: Told, all_told: Sequence[Told]) -> Told:
    """With the number of clients that Local serves better, where there is a run of it."""
    mine = told.run.experiment
    locals_ = [each for each in all_told if each.run.experiment.method == LOCAL]
    local = next((each for each in locals_ if same_clients(each.run.experiment, mine)), None)
    if local is None or mine.method == LOCAL:
        return told
    pairs = [(told.own(client), local.own(client)) for client in told.clients]
    both = [(a, b) for a, b in pairs if a is not None and b is not None]
    figures = worse_off(told.run.headline, both, "hurt_vs_local", higher_is_better=True)
    summary = told.run.summary.model_copy(update={"figures": told.run.summary.figures | figures})
    return replace(told, run=replace(told.run, summary=summary))


def _labels(lines: Sequence[TableLine], differing: Sequence[str]) -> list[str]:
    """The method; where that is not enough the fields in which they differ, then the folder."""
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
