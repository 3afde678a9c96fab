"""The section about clients by name: what data they have, and which gain or lose with each method."""

from collections.abc import Callable, Sequence
from statistics import fmean

from motet.io.text import printable
from motet.metrics.metric import Metric
from motet.metrics.names import GENERIC, PERSONAL
from motet.metrics.wording import NOTHING, percent, signed_written, written
from motet.report.charts import Chart, ChartRow, Grid, Key, Mark, RowsChart
from motet.report.page.blocks import Block, Cell, Charts, PageSection, Sheet, Words
from motet.report.page.contents import Contender, PageContents, Unit, few, label_of, names_of
from motet.report.page.gains import FINE_TUNING, IN_EVERY_RUN, Gained, Gains, gains_of, gains_over
from motet.runs.clients_file import ClientInfo
from motet.runs.local_baseline import LOCAL
from motet.studies.comparison_file import ClientResult, ComparisonFile

# -------- Charts of gains and losses


OWN_ROWS = "split"  # the main figure's data, if they are clients' own test rows


def with_rows(client: ClientInfo, data: str) -> str:
    """Return a client's name with the number of its test rows, if its values are from them and it is known."""
    known = data == OWN_ROWS and client.test is not None
    return f"{label_of(client)} ({client.test:,})" if known else label_of(client)


def chart_of_methods(contents: PageContents) -> Chart | None:
    """Return a chart of all clients by all methods: gain over Local, or over fine-tuning if there is no Local."""
    over = contents.named(LOCAL) or contents.named(FINE_TUNING)
    if over is None:
        return None
    others = [c for c in contents.contenders if c is not over and not c.is_yardstick]
    found = [(c.label, gains) for c in others if (gains := gains_over(c, over)).of]
    if len(found) < 2:
        return None
    clients_info, known = contents.focus.clients_info, found[0][1]
    means = {i: fmean(gains.of[i].value for _, gains in found if i in gains.of) for i in known.of if i in clients_info}
    drawn, note = few(sorted(means, key=lambda i: means[i]), "that lose most", "that gain most")
    cells = [[gains.of[i].value if i in gains.of else None for _, gains in found] for i in drawn]
    unit, data = contents.unit, contents.focus.first.data
    names = [with_rows(clients_info[i], data) for i in drawn]
    digits = 1 if unit.metric.percent else 3
    grid = Grid([label for label, _ in found], names, cells, "about_zero", y_label="client", digits=digits, signed=True)
    what = unit.difference[0].upper() + unit.difference[1:]
    rows = " In brackets the test rows that a value is from: with few of them it says little."
    see = (
        f"{what} by which a client's own model is better; clients that lose most come first."
        f"{rows if data == OWN_ROWS else ''}{note}"
    )
    return Chart("gains", f"Every client with every method, against {known.over}", see, grid)


def chart_of_contender(contents: PageContents, contender: Contender, closed: bool) -> Chart | None:
    """Return a chart of one contender's clients, sorted by their gain."""
    found, clients_info = gains_of(contents, contender), contender.clients_info
    if not found:
        return None
    gains = found[0]
    drawn, note = few(gains.from_the_worst, "that lose most", "that gain most")
    rows = [
        ChartRow(
            with_rows(clients_info[i], contender.first.data), _marks(found, i), f"{clients_info[i].train} training rows"
        )
        for i in drawn
    ]
    unit = contender.first.unit
    axis, columns = f"gain over {gains.over}, {unit.difference}", [f"over {each.over}" for each in found]
    drawing = RowsChart(axis, columns, rows, _keys(found), from_zero=True, signed=True, least=unit.least(0.04))
    seeds = f" Bars are means over {len(contender.runs)} runs." if gains.surely == IN_EVERY_RUN else ""
    see = f"{len(gains.losers)} of {len(gains.of)} clients have a worse model than with {gains.over}.{seeds}{note}"
    title = f"{contender.label}: each client's gain over {gains.over}"
    return Chart(f"clients-{contender.series + 1}", title, see, drawing, closed=closed)


def _keys(found: Sequence[Gains]) -> list[Key]:
    keys = [Key("up", "gains", "area"), Key("down", "loses", "area")]
    if any(gained.is_unsure for gained in found[0].of.values()):
        keys.append(Key("soft", f"pale: not {found[0].surely}", "pale"))
    return keys + [Key("soft", f"over {each.over}", "hollow") for each in found[1:]]


def _marks(found: Sequence[Gains], client: int) -> list[Mark | None]:
    first, *others = (gains.of.get(client) for gains in found)
    rings = [None if each is None else Mark(each.value, "soft", "hollow") for each in others]
    return [None if first is None else _bar(first), *rings]


def _bar(gained: Gained) -> Mark:
    kind = "pale" if gained.is_unsure else "bar"
    return Mark(gained.value, "down" if gained.value < 0 else "up", kind, gained.low, gained.high)


# -------- The section


MOST_BUBBLES = 6000
MOST_METHODS = 12  # methods that get a chart of their clients


def clients(contents: PageContents) -> PageSection:
    """Return the section: who gains and who loses by name, then every method, then the clients' data."""
    focus = contents.focus
    ordered = [focus, *(c for c in contents.contenders if c is not focus and not c.is_yardstick)]
    first = chart_of_contender(contents, focus, closed=False)
    others = [chart_of_contender(contents, c, closed=True) for c in ordered[1:MOST_METHODS]]
    charts = [first, chart_of_methods(contents), _classes(focus) or _sizes(focus), *others]
    blocks: list[Block] = [Words([verdict], strong=True) for verdict in [_verdict(contents, focus)] if verdict]
    blocks.append(_table(contents))
    blocks += [Charts([chart]) for chart in charts if chart]
    see = "Who is better or worse off, and who has which data. Orange is a loss; the losers come first."
    return PageSection("clients", "Clients by name", see, blocks)


MOST_IN_TABLE = 60  # clients above which the table is folded away


def _table(contents: PageContents) -> Sheet:
    """Return a row per client: its rows, what it has alone, with the one model and of its own, and who gains."""
    if contents.comparison is not None and contents.comparison.clients:
        titles, rows = _surveyed(contents.comparison, contents.unit)
    else:
        titles, rows = _of_run(contents)
    return Sheet(f"All {len(rows)} clients", titles, rows, closed=len(rows) > MOST_IN_TABLE)


def _surveyed(comparison: ComparisonFile, unit: Unit) -> tuple[list[str], list[list[Cell]]]:
    """Return titles and rows of a comparison's clients, without columns that no client has a value in."""
    metric = unit.metric
    over = "own over {}" if metric.higher_is_better else "own better than {} by"
    columns: dict[str, Callable[[ClientResult], Cell]] = {
        "client": lambda c: Cell(printable(c.name), c.name.lower()),
        "own model": lambda c: _number(c.own, metric, strong=True),
        "alone": lambda c: _number(c.alone, metric),
        "one model for all": lambda c: _number(c.one_model, metric),
        f"{over.format(comparison.compared_with)}, {unit.difference}": lambda c: _difference(c, metric),
        "verdict": lambda c: Cell(c.verdict or NOTHING, c.verdict),
        "test rows": lambda c: _count(c.test),
        "training rows": lambda c: _count(c.train),
        f"share of class {comparison.rare_class}": lambda c: Cell(
            NOTHING if c.rare is None else f"{percent(c.rare)} %", c.rare
        ),
    }
    ordered = sorted(comparison.clients, key=lambda c: (c.difference is None, c.difference or 0.0))
    cells = {title: [write(client) for client in ordered] for title, write in columns.items()}
    there = {title: found for title, found in cells.items() if any(cell.text != NOTHING for cell in found)}
    return list(there), [list(row) for row in zip(*there.values(), strict=True)]


def _difference(client: ClientResult, metric: Metric) -> Cell:
    if client.difference is None:
        return Cell(NOTHING)
    low_high = client.interval
    reach = "" if low_high is None else f" ({' to '.join(signed_written(end, metric) for end in low_high)})"
    return Cell(signed_written(client.difference, metric) + reach, client.difference)


def _of_run(contents: PageContents) -> tuple[list[str], list[list[Cell]]]:
    """Return titles and rows of the clients of the run in focus."""
    run, unit = contents.focus.first, contents.unit
    infos = [info for info in contents.focus.clients_info.values() if not info.new]
    rows = []
    for info in infos:
        own, one = (run.own(info.id, model) for model in (PERSONAL, GENERIC))
        values = [None if value is None else value / unit.factor for value in (own, one)]
        difference = None if None in values else unit.metric.direction * (values[0] - values[1])  # type: ignore[operator]
        rows.append(
            [
                Cell(label_of(info), label_of(info).lower()),
                _number(values[0], unit.metric, strong=True),
                _number(values[1], unit.metric),
                Cell(NOTHING if difference is None else signed_written(difference, unit.metric), difference),
                _count(info.test),
                _count(info.train),
            ]
        )
    titles = [
        "client",
        "own model",
        "one model for all",
        f"difference, {unit.difference}",
        "test rows",
        "training rows",
    ]
    return titles, rows


def _number(value: float | None, metric: Metric, strong: bool = False) -> Cell:
    return Cell(NOTHING if value is None else written(value, metric), value, strong)


def _count(value: int | None) -> Cell:
    return Cell(NOTHING if value is None else f"{value:,}", value)


def _classes(focus: Contender) -> Chart | None:
    """Return a chart of class counts as bubbles, if there are classes, recorded and not too many."""
    clients_info, names = list(focus.clients_info.values()), focus.first.finished.clients_info.classes
    classes = len(clients_info[0].counts) if clients_info else 0
    if classes < 2 or any(len(p.counts) != classes for p in clients_info) or len(clients_info) * classes > MOST_BUBBLES:
        return None
    grid = Grid(
        [printable(name) for name in names] if len(names) == classes else [str(c) for c in range(classes)],
        [label_of(client) for client in clients_info],
        [[float(n) for n in client.counts] for client in clients_info],
        "bubbles",
        "classes",
        "clients",
        beside=[float(client.train) for client in clients_info],
        beside_label="training samples",
    )
    see = f"Large bubbles are many training samples of that class; the bars are all of a client's.{_whose(focus)}"
    return Chart("classes", "Which client has which classes", see, grid)


def _sizes(focus: Contender) -> Chart:
    clients_info = sorted(focus.clients_info.values(), key=lambda client: -client.train)
    drawn, note = few(clients_info, "largest", "smallest")
    rows = [ChartRow(label_of(client), [Mark(float(client.train), "heat", "bar")]) for client in drawn]
    drawing = RowsChart("training samples", ["training samples"], rows, from_zero=True, told=len(rows) <= 30)
    return Chart(
        "sizes", "How much data each client has", f"Long bars are large clients.{note}{_whose(focus)}", drawing
    )


def _whose(focus: Contender) -> str:
    return "" if focus.has_same_clients else f" The clients are those of seed {focus.first.seed}."


def _verdict(contents: PageContents, focus: Contender) -> str:
    """Return a sentence that names the clients that are worse off, with certainty if there are intervals."""
    found = gains_of(contents, focus)
    if not found:
        return ""
    gains, clients_info = found[0], focus.clients_info
    if not gains.losers:
        return f"With {focus.label}, none of {len(gains.of)} clients is worse off than with {gains.over}."
    surely = names_of([label_of(clients_info[i]) for i in gains.losers if not gains.of[i].is_unsure])
    verb = "is" if len(gains.losers) == 1 else "are"
    start = (
        f"With {focus.label}, {len(gains.losers)} of {len(gains.of)} clients {verb} worse off than with {gains.over}"
    )
    return f"{start}; {gains.surely}: {surely or 'none'}." if gains.surely else f"{start}: {surely}."
