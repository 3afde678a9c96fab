"""The clients by name: what data they have, and who gains and who loses by each method."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from motet.printable import printable
from motet.report.charts import Chart, Grid, Key, Mark, Row, Rows
from motet.report.page.blocks import Block, Charts, Section, Words
from motet.report.page.sections.answer import names_of
from motet.report.page.story import (
    FINE_TUNING,
    Contender,
    Gained,
    Story,
    gains,
    gains_over_generic,
    people_of,
    same_people,
)
from motet.runs.beside_local import LOCAL
from motet.runs.people import Person

MOST_BUBBLES = 6000
MOST_METHODS = 12  # with a chart of their clients each
Gains = Mapping[int, Gained]


def clients(story: Story) -> Section | None:
    """Data first, then gains."""
    focus = story.focus
    blocks: list[Block] = [*_data(focus), *_all_methods(story)]
    ordered = [focus, *(c for c in story.contenders if c is not focus and not c.is_yardstick)]
    shown = [chart for c in ordered[:MOST_METHODS] if (chart := _of_contender(story, c, closed=c is not focus))]
    blocks += [Charts([chart]) for chart in shown]
    if not blocks:
        return None
    if ordered[:1] == [focus] and (verdict := _verdict(story, focus)):
        blocks.insert(0, Words([verdict], strong=True))
    see = "Who has which data, and who is better or worse off. Orange is a loss; the losers come first."
    return Section("clients", "Clients by name", see, blocks)


def _label(person: Person) -> str:
    """Its name; a number alone says that it is a client."""
    return f"client {person.id}" if person.name == str(person.id) else printable(person.name)


def _data(focus: Contender) -> list[Block]:
    """Bubbles of classes where they are recorded, else the sizes alone."""
    people = list(people_of(focus).values())
    names = [_label(p) + (" (new)" if p.new else "") for p in people]
    seed = "" if same_people(focus) else f" The clients are those of seed {focus.first.seed}."
    classes = len(people[0].counts) if people else 0
    counted = classes and all(len(p.counts) == classes for p in people)
    if counted and len(people) * classes <= MOST_BUBBLES:
        titles = [printable(name) for name in focus.first.run.people.classes] or [str(c) for c in range(classes)]
        grid = Grid(
            titles[:classes] if len(titles) >= classes else [str(c) for c in range(classes)],
            names,
            [[float(n) for n in p.counts] for p in people],
            "bubbles",
            "classes",
            "clients",
            beside=[float(p.train) for p in people],
            beside_label="training samples",
        )
        see = f"The larger the bubble, the more training samples of that class; the bars are all of a client's.{seed}"
        return [Charts([Chart("classes", "Which client has which classes", see, grid)])]
    rows = [Row(name, [Mark(float(p.train), "heat", "bar")]) for name, p in zip(names, people, strict=True)]
    drawing = Rows("training samples", ["training samples"], rows, from_zero=True, told=len(rows) <= 30)
    return [Charts([Chart("sizes", "How much data each client has", f"Long bars are large clients.{seed}", drawing)])]


def _all_methods(story: Story) -> list[Block]:
    """Every client by every method: gain over Local, or over fine-tuning where there is no Local."""
    over = story.named(LOCAL) or story.named(FINE_TUNING)
    others = [c for c in story.contenders if c is not over and not c.is_yardstick] if over else []
    found = [(c, values) for c in others if over and (values := gains(c, over))]
    if over is None or len(found) < 2:
        return []
    people = people_of(story.focus)
    known = [i for i in found[0][1] if i in people]
    means = {i: fmean(values[i].value for _, values in found if i in values) for i in known}
    ordered = sorted(known, key=lambda i: means[i])
    cells = [[values[i].value if i in values else None for _, values in found] for i in ordered]
    grid = Grid(
        [c.label for c, _ in found],
        [_label(people[i]) for i in ordered],
        cells,
        "about_zero",
        "",
        "client",
        signed=True,
    )
    name = "its model alone" if over.plain_method == LOCAL else over.label
    see = f"Points of percent that a client's own model is better than {name}; clients that lose most come first."
    return [Charts([Chart("gains", f"Every client with every method, against {_alone(over)}", see, grid)])]


def _alone(over: Contender) -> str:
    return "training alone" if over.plain_method == LOCAL else over.label


def _of_contender(story: Story, contender: Contender, closed: bool) -> Chart | None:
    """One contender's clients, sorted by their gain."""
    columns = _columns(story, contender)
    if not columns:
        return None
    people, (_, first) = people_of(contender), columns[0]
    ordered = sorted((i for i in first if i in people), key=lambda i: first[i].value)
    if not ordered:
        return None
    rows = [Row(_label(people[i]), _marks(columns, i), _more(people[i])) for i in ordered]
    lower = sum(first[i].value < 0 for i in ordered)
    over = columns[0][0]
    keys = [Key("up", "gains", "area"), Key("down", "loses", "area")]
    if any(first[i].is_unsure for i in ordered):
        keys.append(
            Key("soft", "pale: within noise" if len(contender.told) == 1 else "pale: not in every seed", "pale")
        )
    keys += [Key("soft", f"over {name}", "hollow") for name, _ in columns[1:]]
    drawing = Rows(
        f"gain over {over}, points of percent",
        [f"over {name}" for name, _ in columns],
        rows,
        keys,
        from_zero=True,
        signed=True,
        least=4.0,
    )
    seeds = (
        f" Bars are means over {len(contender.told)} seeds."
        if same_people(contender) and len(contender.told) > 1
        else ""
    )
    see = f"{lower} of {len(ordered)} clients have a worse model than with {over}.{seeds}"
    title = f"{contender.label}: each client's gain over {over}"
    return Chart(f"clients-{contender.series + 1}", title, see, drawing, closed=closed)


def _verdict(story: Story, focus: Contender) -> str:
    """Who is worse off, by name; where there are intervals, who is so by more than chance."""
    columns = _columns(story, focus)
    if not columns:
        return ""
    people, (over, found) = people_of(focus), columns[0]
    ordered = sorted((i for i in found if i in people), key=lambda i: found[i].value)
    lower = [i for i in ordered if found[i].value < 0]
    surely = [_label(people[i]) for i in lower if not found[i].is_unsure]
    if not lower:
        return f"With {focus.label}, none of {len(ordered)} clients is worse off than with {over}."
    verb = "is" if len(lower) == 1 else "are"
    start = f"With {focus.label}, {len(lower)} of {len(ordered)} clients {verb} worse off than with {over}"
    if not any(gained.low is not None for gained in found.values()):
        return f"{start}: {names_of(surely)}."
    sure = "by more than chance" if len(focus.told) == 1 else "in every seed"
    return f"{start}; {sure}: {names_of(surely) or 'none'}."


def _columns(story: Story, contender: Contender) -> list[tuple[str, Gains]]:
    """Gains over Local and over fine-tuning where there are such runs; else over the one model, with intervals."""
    found: list[tuple[str, Gains]] = []
    for method, name in ((LOCAL, "training alone"), (FINE_TUNING, FINE_TUNING)):
        over = story.named(method)
        if over is not None and over is not contender and (values := gains(contender, over)):
            found.append((name, values))
    if found or contender.plain_method == LOCAL:
        return found
    values = gains_over_generic(contender)
    return [("the one model for all", values)] if values else []


def _marks(columns: Sequence[tuple[str, Gains]], client: int) -> list[Mark | None]:
    marks: list[Mark | None] = []
    for place, (_, values) in enumerate(columns):
        found = values.get(client)
        if found is None:
            marks.append(None)
        elif place == 0:
            marks.append(
                Mark(
                    found.value,
                    "down" if found.value < 0 else "up",
                    "pale" if found.is_unsure else "bar",
                    found.low,
                    found.high,
                )
            )
        else:
            marks.append(Mark(found.value, "soft", "hollow"))
    return marks


def _more(person: Person) -> str:
    return f"{person.train} training samples"
