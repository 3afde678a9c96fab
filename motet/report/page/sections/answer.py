"""The first section: the recommendation of a comparison, the best of several runs, or the figures of one run."""

from statistics import fmean, stdev

from motet.metrics.metric import ACCURACY
from motet.metrics.names import AFTER, BEFORE, GENERIC, PERSONAL
from motet.metrics.wording import NOTHING, level_words, megabytes, signed_written, with_unit, written
from motet.report.page.blocks import Block, Card, Cards, Cell, PageSection, Sheet, Words
from motet.report.page.contents import Contender, PageContents, Unit, names_of, options_text
from motet.report.tables.compared import title as title_of_answer
from motet.report.tables.runs import CHANCE, Marks
from motet.runs.local_baseline import LOCAL
from motet.studies.comparison_file import MethodDifference, Score

SURE = {
    True: "How sure: it differs from the next best by more than chance.",
    False: "How sure: its difference from the next best may be chance.",
}


def answer(contents: PageContents) -> PageSection:
    """Return the section at the top of the page."""
    focus = contents.focus
    title, see, sentences = _words(contents)
    blocks: list[Block] = [Cards(_cards(focus, contents.unit))]
    if sentences:
        blocks.append(Words(sentences))
    if beside := _beside(contents):
        blocks.append(beside)
    if contents.left_out:
        blocks.append(Words([f"Left out: {why}." for why in contents.left_out]))
    return PageSection("answer", title, see, blocks)


def _words(contents: PageContents) -> tuple[str, str, list[str]]:
    focus = contents.focus
    if contents.comparison is not None:
        recommended = contents.comparison.recommended
        why, *sentences = recommended.paragraphs
        sentences.append(SURE[recommended.certain])
        if recommended.options:
            sentences.append(f"Chosen for it: {options_text(recommended.options)}.")
        return title_of_answer(recommended), why, sentences
    if contents.best is not None:
        return f"Best here: {focus.label}", _lead(contents, contents.best), []
    if len(contents.contenders) == 1:
        return focus.label, _one_run(focus, contents.unit), []
    return (
        "Runs side by side",
        f"No best is named: the runs have different data. The figures are those of {focus.label}.",
        [],
    )


def _lead(contents: PageContents, best: Contender) -> str:
    """Return a sentence about whether the best differs from the others by more than chance."""
    lines = {c.label: c.line for c in contents.contenders if c.line.headline()}
    marks = Marks.of(list(lines.values()), lines[best.label])
    near = [label for label, line in lines.items() if line in (*marks.near, *marks.best) and label != best.label]
    metric = contents.unit.metric
    first = f"Its clients' own models have the {'highest' if metric.higher_is_better else 'lowest'} mean {metric.said}"
    seeds = " One seed does not tell what another training would give: run others, such as --seed 1."
    more = seeds if all(len(line.runs) == 1 for line in lines.values()) else ""
    if near:
        return f"{first}, but its lead over {names_of(near)} may be chance ({CHANCE}).{more}"
    if marks.unknown:
        return f"{first}. Nothing can be said of chance: the runs share neither clients nor seeds.{more}"
    return f"{first}, by more than chance ({CHANCE}).{more}"


def _one_run(focus: Contender, unit: Unit) -> str:
    own, one = focus.headline(), focus.headline(GENERIC)
    if not own:
        return "No client's own model was scored."
    if not one:
        return f"{_reach(own, unit)}; there is no model for all to compare with."
    difference = fmean(own) - fmean(one)
    word = "more" if difference >= 0 else "less"
    size = signed_written(abs(difference), unit.metric).lstrip("+")
    return f"{_reach(own, unit)}, {size}{' points' if unit.metric.percent else ''} {word} than the one model for all."


def _reach(own: list[float], unit: Unit) -> str:
    named = "" if unit.metric is ACCURACY else f"{unit.metric.said} "  # percent of right answers need no name
    return f"Clients' own models reach {named}{with_unit(fmean(own), unit.metric)} on average"


def _cards(focus: Contender, unit: Unit) -> list[Card]:
    compared = focus.compared
    own, one = (compared.personal, compared.generic) if compared else (None, None)
    named = "" if unit.metric is ACCURACY else f", {unit.metric.said}"
    cards = [
        Card(f"clients' own models{named}", *_value(focus.headline(PERSONAL), own, unit)),
        Card(f"one model for all{named}", *_value(focus.generic(), one, unit)),
    ]
    cards += _hurt(focus, "alone", "hurt_vs_local_clients")
    if compared is None:  # a comparison has its own sentence, which counts by means over seeds
        cards += _hurt(focus, "with the one model", "hurt_clients")
    before, after = focus.headline(BEFORE), focus.headline(AFTER)
    if after:
        run = f"{with_unit(fmean(before), unit.metric)} before" if before else ""
        cards.append(Card(f"new clients, after adaptation{named}", with_unit(fmean(after), unit.metric), run))
    if (text := megabytes(focus.bytes_per_round)) != NOTHING:
        cards.append(Card("sent in a round", f"{text} MB", "down and up, all clients of the round"))
    return cards


def _hurt(focus: Contender, than: str, statistic: str) -> list[Card]:
    """Return a card with how many clients are worse off, with their names in a comparison."""
    at, named = focus.first.finished.headline, focus.compared.hurt_clients if focus.compared else None
    hurt, of = focus.figure(at.over(statistic)), focus.figure(at.over(statistic.replace("hurt", "compared")))
    if not hurt or not of:
        return []
    label, beside = f"clients worse off than {than}", f"of {_count(fmean(of))}"
    if than == "alone" and named is not None:
        return [Card(label, str(len(named)), f"{beside}: {names_of(list(named))}" if named else beside)]
    seeds = f", mean over {len(hurt)} seeds" if len(hurt) > 1 else ""
    return [Card(label, _count(fmean(hurt)), f"{beside}{seeds}")]


def _value(values: list[float], scored: Score | None, unit: Unit) -> tuple[str, str]:
    metric = unit.metric
    if scored is not None:
        interval = scored.interval
        beside = f"95 % interval {written(interval[0], metric)} to {written(interval[1], metric)}" if interval else ""
        return with_unit(scored.mean, metric), beside
    if not values:
        return NOTHING, "the method has none"
    spread = f"± {written(stdev(values), metric)} over {len(values)} seeds" if len(values) > 1 else "one seed"
    return with_unit(fmean(values), metric), spread


# -------- What one has otherwise


def _beside(contents: PageContents) -> Sheet | None:
    """Return a table of the recommended models beside what clients have otherwise; None without a comparison."""
    comparison, unit = contents.comparison, contents.unit
    best = None if comparison is None else comparison.best
    if comparison is None or best is None:
        return None
    methods = {each.method: each for each in comparison.methods}
    rows = [_beside_row(f"own models of {best.method}, recommended", best.personal, None, unit, strong=True)]
    if best.method != LOCAL and LOCAL in methods:
        local = methods[LOCAL]
        rows.append(_beside_row("alone: a net of each client's own rows", local.personal, local.to_recommended, unit))
    fedavg = methods.get("fedavg")
    if fedavg is not None and fedavg.generic is not None:
        rows.append(_beside_row("one model for all, FedAvg's", fedavg.generic, None, unit))
    rows += [_beside_row(each.name, each.personal, each.to_recommended, unit) for each in comparison.yardsticks]
    if comparison.majority is not None:
        level = Score(mean=comparison.majority, std=None, interval=None)
        rows.append(_beside_row(f"always {level_words(unit.metric)}", level, None, unit))
    titles = ["model", unit.title, "95 % interval", "against the recommended"]
    return Sheet("Beside what there is without it", titles, rows) if len(rows) > 1 else None


def _beside_row(
    label: str, score: Score, difference: MethodDifference | None, unit: Unit, strong: bool = False
) -> list[Cell]:
    metric, interval = unit.metric, score.interval
    reach = NOTHING if interval is None else f"{written(interval[0], metric)} to {written(interval[1], metric)}"
    lead = Cell(NOTHING)
    if difference is not None:
        sure = "" if difference.certain else ", may be chance"
        lead = Cell(f"{signed_written(difference.mean, metric)}{sure}", difference.mean)
    return [
        Cell(label, label.lower(), strong),
        Cell(written(score.mean, metric), score.mean, strong),
        Cell(reach, None if interval is None else interval[0]),
        lead,
    ]


def _count(value: float) -> str:
    return f"{value:.0f}" if value == int(value) else f"{value:.1f}"
