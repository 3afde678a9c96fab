"""The section about the tuning of a comparison: what was tried for every method, and what was chosen."""

from motet.metrics.wording import NOTHING, written
from motet.report.charts import Chart, ChartRow, Key, Mark, RowsChart
from motet.report.page.blocks import Block, Cell, Charts, PageSection, Sheet, Words
from motet.report.page.contents import Contender, PageContents, Unit, options_text
from motet.studies.comparison_file import TrialResult

MOST_TRIALS = 400  # rows in the table


def tuning(contents: PageContents) -> PageSection | None:
    """Return the section with the range of each method's trials, the chosen one, and all trials; None without a
    tuning."""
    tuned = [c for c in contents.contenders if c.compared and any(t.score is not None for t in c.compared.trials)]
    if not tuned or contents.comparison is None:
        return None
    unit = contents.unit
    rows = [_row(c, unit) for c in tuned]
    keys = [Key("soft", "worst trial", "hollow"), Key("up", "chosen", "mark")]
    drawing = RowsChart(
        f"on validation data, {unit.title}", ["worst trial", "chosen"], rows, keys, joined=True, told=True
    )
    widest = max(rows, key=_reach)
    see = f"The longer the line, the more tuning matters: most for {widest.label}."
    if any(len({t.rounds for t in c.compared.trials}) > 1 for c in tuned if c.compared):
        see += " Trials that fell behind were stopped early: their scores are of fewer rounds."
    blocks: list[Block] = [Charts([Chart("tuning", "From the worst trial to the chosen one", see, drawing)])]
    blocks.append(_sheet(tuned, unit))
    notes = [
        *contents.comparison.notes,
        *(f"Left out: {name}: {why}" for name, why in contents.comparison.left_out.items()),
    ]
    if notes:
        blocks.append(Words(notes))
    says = (
        "What was tried for each method and what was chosen: trials were judged on validation data, never on test data."
    )
    return PageSection("tuning", "Tuning", says, blocks, closed=True)


def _row(contender: Contender, unit: Unit) -> ChartRow:
    assert contender.compared is not None
    chosen = contender.compared.options
    scored = [
        (t.score, t.options == chosen, options_text(t.options))
        for t in contender.compared.trials
        if t.score is not None
    ]
    turn = unit.metric.direction
    last, _, options = max([each for each in scored if each[1]] or scored, key=lambda each: turn * each[0])
    worst = min(scored, key=lambda each: turn * each[0])[0]
    marks = [Mark(unit.factor * worst, "soft", "hollow"), Mark(unit.factor * last, "up")]
    return ChartRow(contender.label, marks, f"{len(scored)} trials\nchosen: {options or 'defaults'}")


def _reach(row: ChartRow) -> float:
    first, last = row.marks
    return abs(last.value - first.value) if first and last else 0.0


def _sheet(tuned: list[Contender], unit: Unit) -> Sheet:
    rows = [
        _trial(contender.label, trial, trial.options == contender.compared.options, unit)
        for contender in tuned
        if contender.compared
        for trial in contender.compared.trials
    ]
    return Sheet("All trials", ["method", "options", unit.title, "rounds", "verdict"], rows[:MOST_TRIALS], closed=True)


def _trial(label: str, trial: TrialResult, chosen: bool, unit: Unit) -> list[Cell]:
    options = options_text(trial.options)
    return [
        Cell(label, label.lower(), chosen),
        Cell(options or "defaults", options.lower()),
        Cell(NOTHING if trial.score is None else written(trial.score, unit.metric), trial.score, chosen),
        Cell(str(trial.rounds), trial.rounds),
        Cell("chosen" if chosen else trial.failure or ""),
    ]
