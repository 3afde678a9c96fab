"""The section about clients by name: what data they have, and which gain or lose with each method."""

from collections.abc import Sequence
from statistics import fmean

from motet.io.text import printable
from motet.report.charts import Chart, ChartRow, Grid, Key, Mark, RowsChart
from motet.report.page.blocks import Block, Charts, PageSection, Words
from motet.report.page.contents import Contender, PageContents, few, label_of, names_of
from motet.report.page.gains import FINE_TUNING, Gained, Gains, gains_of, gains_over
from motet.runs.local_baseline import LOCAL

# -------- Charts of gains and losses


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
    names = [label_of(clients_info[i]) for i in drawn]
    grid = Grid([label for label, _ in found], names, cells, "about_zero", y_label="client", signed=True)
    see = f"Points of percent that a client's own model is better; clients that lose most come first.{note}"
    return Chart("gains", f"Every client with every method, against {known.over}", see, grid)


def chart_of_contender(contents: PageContents, contender: Contender, closed: bool) -> Chart | None:
    """Return a chart of one contender's clients, sorted by their gain."""
    found, clients_info = gains_of(contents, contender), contender.clients_info
    if not found:
        return None
    gains = found[0]
    drawn, note = few(gains.from_the_worst, "that lose most", "that gain most")
    rows = [
        ChartRow(label_of(clients_info[i]), _marks(found, i), f"{clients_info[i].train} training samples")
        for i in drawn
    ]
    unit, columns = f"gain over {gains.over}, points of percent", [f"over {each.over}" for each in found]
    drawing = RowsChart(unit, columns, rows, _keys(found), from_zero=True, signed=True, least=4.0)
    seeds = f" Bars are means over {len(contender.runs)} seeds." if gains.surely == "in every seed" else ""
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
    """Return the section: first the clients' data, then their gains."""
    focus = contents.focus
    ordered = [focus, *(c for c in contents.contenders if c is not focus and not c.is_yardstick)]
    charts = [_classes(focus) or _sizes(focus), chart_of_methods(contents)]
    charts += [chart_of_contender(contents, c, closed=c is not focus) for c in ordered[:MOST_METHODS]]
    blocks: list[Block] = [Words([verdict], strong=True) for verdict in [_verdict(contents, focus)] if verdict]
    blocks += [Charts([chart]) for chart in charts if chart]
    see = "Who has which data, and who is better or worse off. Orange is a loss; the losers come first."
    return PageSection("clients", "Clients by name", see, blocks)


def _classes(focus: Contender) -> Chart | None:
    """Return a chart of class counts as bubbles, if they are recorded and not too many."""
    clients_info, names = list(focus.clients_info.values()), focus.first.finished.clients_info.classes
    classes = len(clients_info[0].counts) if clients_info else 0
    if not classes or any(len(p.counts) != classes for p in clients_info) or len(clients_info) * classes > MOST_BUBBLES:
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
