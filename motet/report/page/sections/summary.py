"""The section with the summary table: a row per contender, a column per figure that some run has."""

import re

from motet.metrics.wording import NOTHING
from motet.report.page.blocks import Cell, PageSection, Sheet, Words
from motet.report.page.contents import PageContents
from motet.report.tables.columns import DERIVED, figure_columns
from motet.report.tables.runs import FAILED, failures, measured, over_seeds, served

_GROUPS = {"weighted": "common test set, by class", "split": "own test data"}


def summary(contents: PageContents) -> PageSection:
    """Return the section with all figures side by side."""
    columns = figure_columns([run.summary for run in contents.finished])
    columns = sorted(
        columns, key=lambda column: not column.headline
    )  # first what methods are judged by, also on a phone
    titles = ["method", *(column.title.replace("\n", " ") for column in columns)]
    groups = ["", *(_GROUPS.get(column.data, "") for column in columns)]
    rows = []
    for contender in contents.contenders:
        group = [run.finished.summary for run in contender.runs]
        label = contender.label + FAILED * bool(contender.line.warnings())
        cells = [Cell(label, contender.label.lower(), contender is contents.focus)]
        cells += [_cell(column.cell(group), column.headline) for column in columns]
        rows.append(cells)
    notes = [
        measured(contents.finished, columns),
        *served(contents.finished),
        *over_seeds(contents.lines),
        *failures(contents.lines),
    ]
    notes = [re.sub(r"; `--each`[^.]*", "", note) for note in notes]
    return PageSection(
        "summary",
        "All figures",
        "One row per method; select a title to sort by it.",
        [
            Sheet("Figures of every method", titles, rows, [c.series for c in contents.contenders], groups),
            Words(notes),
        ],
    )


def _cell(text: str, strong: bool) -> Cell:
    found = re.match(r"-?(\d+(\.\d+)?|\.\d+)", text.strip().replace("−", "-"))
    return Cell(
        text.strip().replace(DERIVED, f" {DERIVED}"), float(found[0]) if found and text != NOTHING else None, strong
    )
