"""The section about new clients: their accuracy before and after adaptation, by method and by name."""

from statistics import fmean

from motet.metrics.names import AFTER, BEFORE
from motet.report.charts import Chart, ChartRow, Key, Mark, RowsChart
from motet.report.page.blocks import Block, Charts, PageSection
from motet.report.page.contents import Contender, PageContents, Unit, few, label_of, names_of

KEYS = (Key("soft", "before", "hollow"), Key("up", "after, better", "mark"), Key("down", "after, worse", "mark"))


def newcomers(contents: PageContents) -> PageSection | None:
    """Return the section by contender, then by client for the contender in focus; None without new clients."""
    by_method = [row for contender in contents.contenders if (row := _mean_row(contender))]
    if not by_method:
        return None
    unit = contents.unit
    what = f"new clients, {unit.title}"
    blocks: list[Block] = [Charts([_chart("new-methods", "New clients by method", by_method, what, unit)])]
    by_name, note = _rows_by_name(contents.focus)
    if by_name:
        title = f"New clients by name, with {contents.focus.label}"
        blocks.append(Charts([_chart("new-clients", title, by_name, unit.title, unit, note)]))
    see = "These clients took no part in training: hollow is what they are handed, filled what adaptation makes of it."
    return PageSection("new-clients", "New clients", see, blocks)


def _chart(name: str, title: str, rows: list[ChartRow], label: str, unit: Unit, note: str = "") -> Chart:
    drawing = RowsChart(
        label, ["before", "after"], rows, KEYS, joined=True, told=True, least=unit.least(0.1), ceiling=unit.ceiling
    )
    worse = [row.label for row in rows if row.marks[1] and row.marks[1].colour == "down"]
    see = f"Adaptation makes it worse for {names_of(worse)}." if worse else "Adaptation makes none of them worse."
    return Chart(name, title, f"{see}{note}", drawing)


def _row(label: str, before: float | None, after: float | None, unit: Unit) -> ChartRow | None:
    if after is None:
        return None
    first = None if before is None else Mark(before, "soft", "hollow")
    worse = before is not None and unit.metric.direction * (after - before) < 0
    return ChartRow(label, [first, Mark(after, "down" if worse else "up")])


def _mean_row(contender: Contender) -> ChartRow | None:
    unit = contender.first.unit
    before, after = ([unit.factor * value for value in contender.headline(model)] for model in (BEFORE, AFTER))
    return _row(contender.label, fmean(before) if before else None, fmean(after) if after else None, unit)


def _rows_by_name(contender: Contender) -> tuple[list[ChartRow], str]:
    run, clients_info = contender.first, contender.clients_info
    drawn, note = few([client for client in sorted(run.new) if client in clients_info], "first", "last")
    found = (_row(label_of(clients_info[i]), run.own(i, BEFORE), run.own(i, AFTER), run.unit) for i in drawn)
    return [row for row in found if row], note
