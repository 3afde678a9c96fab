"""The summary table: a row per contender, every figure that some run has."""

import re

from motet.metrics.wording import NOTHING
from motet.report.page.blocks import Cell, PageSection, Sheet, Words
from motet.report.page.story import Story
from motet.report.tables.columns import DERIVED, figure_columns
from motet.report.tables.runs import FAILED, failures, measured, over_seeds, served

_GROUPS = {"weighted": "common test set, by class", "split": "own test data"}


def summary(story: Story) -> PageSection:
    """All figures side by side."""
    columns = figure_columns([run.summary for run in story.runs])
    titles = ["method", *(column.title.replace("\n", " ") for column in columns)]
    groups = ["", *(_GROUPS.get(column.data, "") for column in columns)]
    rows = []
    for contender in story.contenders:
        group = [told.run.summary for told in contender.told]
        label = contender.label + FAILED * bool(contender.line.warnings())
        cells = [Cell(label, contender.label.lower(), contender is story.focus)]
        cells += [_cell(column.cell(group), column.headline) for column in columns]
        rows.append(cells)
    notes = [measured(story.runs, columns), *served(story.runs), *over_seeds(story.lines), *failures(story.lines)]
    notes = [re.sub(r"; `--each`[^.]*", "", note) for note in notes]
    return PageSection(
        "summary",
        "All figures",
        "One row per method; select a title to sort by it.",
        [
            Sheet("Figures of every method", titles, rows, [c.series for c in story.contenders], groups),
            Words(notes),
        ],
    )


def _cell(text: str, strong: bool) -> Cell:
    found = re.match(r"-?\d+(\.\d+)?", text.strip().replace("−", "-"))
    return Cell(
        text.strip().replace(DERIVED, f" {DERIVED}"), float(found[0]) if found and text != NOTHING else None, strong
    )
