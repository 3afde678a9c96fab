"""Charts of who gains and who loses: every client with every method, and each method's clients from the worst."""

from collections.abc import Sequence
from statistics import fmean

from motet.report.charts import Chart, Grid, Key, Mark, Row, Rows
from motet.report.page.gains import FINE_TUNING, Gained, Gains, gains_of, gains_over
from motet.report.page.names import few, label_of
from motet.report.page.story import Contender, Story
from motet.runs.beside_local import LOCAL


def chart_of_methods(story: Story) -> Chart | None:
    """Every client by every method: gain over Local, or over fine-tuning where there is no Local."""
    over = story.named(LOCAL) or story.named(FINE_TUNING)
    if over is None:
        return None
    others = [c for c in story.contenders if c is not over and not c.is_yardstick]
    found = [(c.label, gains) for c in others if (gains := gains_over(c, over)).of]
    if len(found) < 2:
        return None
    people, known = story.focus.people, found[0][1]
    means = {i: fmean(gains.of[i].value for _, gains in found if i in gains.of) for i in known.of if i in people}
    drawn, note = few(sorted(means, key=lambda i: means[i]), "that lose most", "that gain most")
    cells = [[gains.of[i].value if i in gains.of else None for _, gains in found] for i in drawn]
    names = [label_of(people[i]) for i in drawn]
    grid = Grid([label for label, _ in found], names, cells, "about_zero", y_label="client", signed=True)
    see = f"Points of percent that a client's own model is better; clients that lose most come first.{note}"
    return Chart("gains", f"Every client with every method, against {known.over}", see, grid)


def chart_of_contender(story: Story, contender: Contender, closed: bool) -> Chart | None:
    """One contender's clients, sorted by their gain."""
    found, people = gains_of(story, contender), contender.people
    if not found:
        return None
    gains = found[0]
    drawn, note = few(gains.from_the_worst, "that lose most", "that gain most")
    rows = [Row(label_of(people[i]), _marks(found, i), f"{people[i].train} training samples") for i in drawn]
    unit, columns = f"gain over {gains.over}, points of percent", [f"over {each.over}" for each in found]
    drawing = Rows(unit, columns, rows, _keys(found), from_zero=True, signed=True, least=4.0)
    seeds = f" Bars are means over {len(contender.told)} seeds." if gains.surely == "in every seed" else ""
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
