"""The clients by name: what data they have, and who gains and who loses by each method."""

from motet.printable import printable
from motet.report.charts import Chart, Grid, Mark, Row, Rows
from motet.report.page.blocks import Block, Charts, Section, Words
from motet.report.page.gains import gains_of
from motet.report.page.names import few, label_of, names_of
from motet.report.page.sections.client_gains import chart_of_contender, chart_of_methods
from motet.report.page.story import Contender, Story

MOST_BUBBLES = 6000
MOST_METHODS = 12  # with a chart of their clients each


def clients(story: Story) -> Section:
    """Data first, then gains."""
    focus = story.focus
    ordered = [focus, *(c for c in story.contenders if c is not focus and not c.is_yardstick)]
    charts = [_classes(focus) or _sizes(focus), chart_of_methods(story)]
    charts += [chart_of_contender(story, c, closed=c is not focus) for c in ordered[:MOST_METHODS]]
    blocks: list[Block] = [Words([verdict], strong=True) for verdict in [_verdict(story, focus)] if verdict]
    blocks += [Charts([chart]) for chart in charts if chart]
    see = "Who has which data, and who is better or worse off. Orange is a loss; the losers come first."
    return Section("clients", "Clients by name", see, blocks)


def _classes(focus: Contender) -> Chart | None:
    """Bubbles of classes where they are recorded and not too many."""
    people, names = list(focus.people.values()), focus.first.run.people.classes
    classes = len(people[0].counts) if people else 0
    if not classes or any(len(p.counts) != classes for p in people) or len(people) * classes > MOST_BUBBLES:
        return None
    grid = Grid(
        [printable(name) for name in names] if len(names) == classes else [str(c) for c in range(classes)],
        [label_of(person) for person in people],
        [[float(n) for n in person.counts] for person in people],
        "bubbles",
        "classes",
        "clients",
        beside=[float(person.train) for person in people],
        beside_label="training samples",
    )
    see = f"Large bubbles are many training samples of that class; the bars are all of a client's.{_whose(focus)}"
    return Chart("classes", "Which client has which classes", see, grid)


def _sizes(focus: Contender) -> Chart:
    people = sorted(focus.people.values(), key=lambda person: -person.train)
    drawn, note = few(people, "largest", "smallest")
    rows = [Row(label_of(person), [Mark(float(person.train), "heat", "bar")]) for person in drawn]
    drawing = Rows("training samples", ["training samples"], rows, from_zero=True, told=len(rows) <= 30)
    return Chart(
        "sizes", "How much data each client has", f"Long bars are large clients.{note}{_whose(focus)}", drawing
    )


def _whose(focus: Contender) -> str:
    return "" if focus.has_same_clients else f" The clients are those of seed {focus.first.seed}."


def _verdict(story: Story, focus: Contender) -> str:
    """Who is worse off, by name; where there are intervals, who is so surely."""
    found = gains_of(story, focus)
    if not found:
        return ""
    gains, people = found[0], focus.people
    if not gains.losers:
        return f"With {focus.label}, none of {len(gains.of)} clients is worse off than with {gains.over}."
    surely = names_of([label_of(people[i]) for i in gains.losers if not gains.of[i].is_unsure])
    verb = "is" if len(gains.losers) == 1 else "are"
    start = (
        f"With {focus.label}, {len(gains.losers)} of {len(gains.of)} clients {verb} worse off than with {gains.over}"
    )
    return f"{start}; {gains.surely}: {surely or 'none'}." if gains.surely else f"{start}: {surely}."
