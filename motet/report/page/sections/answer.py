"""The first section: the recommendation of a comparison, the best of several runs, or the figures of one run."""

from statistics import fmean, stdev

from motet.metrics.names import AFTER, BEFORE, GENERIC, PERSONAL
from motet.metrics.wording import NOTHING, megabytes, percent
from motet.report.page.blocks import Block, Card, Cards, PageSection, Words
from motet.report.page.contents import Contender, PageContents, names_of, options_text
from motet.report.tables.compared import title as title_of_answer
from motet.report.tables.runs import CHANCE, Marks
from motet.studies.comparison_file import Score

SURE = {
    True: "How sure: it differs from the next best by more than chance.",
    False: "How sure: its difference from the next best may be chance.",
}


def answer(contents: PageContents) -> PageSection:
    """Return the section at the top of the page."""
    focus = contents.focus
    title, see, sentences = _words(contents)
    blocks: list[Block] = [Cards(_cards(focus))]
    if sentences:
        blocks.append(Words(sentences))
    if contents.left_out:
        blocks.append(Words([f"Left out: {why}." for why in contents.left_out]))
    return PageSection("answer", title, see, blocks)


def _words(contents: PageContents) -> tuple[str, str, list[str]]:
    focus = contents.focus
    if contents.comparison is not None:
        recommended = contents.comparison.recommended
        sentences = [SURE[recommended.certain]]
        if recommended.options:
            sentences.append(f"Chosen for it: {options_text(recommended.options)}.")
        return title_of_answer(recommended), recommended.reason, sentences
    if contents.best is not None:
        return f"Best here: {focus.label}", _lead(contents, contents.best), []
    if len(contents.contenders) == 1:
        return focus.label, _one_run(focus), []
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
    first = "Its clients' own models have the highest mean accuracy"
    seeds = " One seed does not tell what another training would give: run others, such as --seed 1."
    more = seeds if all(len(line.runs) == 1 for line in lines.values()) else ""
    if near:
        return f"{first}, but its lead over {names_of(near)} may be chance ({CHANCE}).{more}"
    if marks.unknown:
        return f"{first}. Nothing can be said of chance: the runs share neither clients nor seeds.{more}"
    return f"{first}, by more than chance ({CHANCE}).{more}"


def _one_run(focus: Contender) -> str:
    own, one = focus.headline(), focus.headline(GENERIC)
    if not own:
        return "No client's own model was scored."
    if not one:
        return (
            f"Clients' own models reach {percent(fmean(own))} % on average; there is no model for all to compare with."
        )
    difference = 100 * (fmean(own) - fmean(one))
    word = "more" if difference >= 0 else "less"
    reach = f"Clients' own models reach {percent(fmean(own))} % on average"
    return f"{reach}, {abs(difference):.1f} points {word} than the one model for all."


def _cards(focus: Contender) -> list[Card]:
    compared = focus.compared
    cards = [
        Card("clients' own models", *_accuracy(focus.headline(PERSONAL), compared.personal if compared else None)),
        Card("one model for all", *_accuracy(focus.generic(), compared.generic if compared else None)),
    ]
    cards += _hurt(focus, "alone", "hurt_vs_local_clients")
    if compared is None:  # a comparison has its own sentence, which counts by means over seeds
        cards += _hurt(focus, "with the one model", "hurt_clients")
    before, after = focus.headline(BEFORE), focus.headline(AFTER)
    if after:
        run = f"{percent(fmean(before))} % before" if before else ""
        cards.append(Card("new clients, after adaptation", f"{percent(fmean(after))} %", run))
    sent = focus.first.finished.summary.bytes_per_round
    if (text := megabytes(sent.down, sent.up)) != NOTHING:
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


def _accuracy(values: list[float], scored: Score | None) -> tuple[str, str]:
    if scored is not None:
        interval = scored.interval
        beside = f"95 % interval {percent(interval[0])} to {percent(interval[1])}" if interval else ""
        return f"{percent(scored.mean)} %", beside
    if not values:
        return NOTHING, "the method has none"
    spread = f"± {100 * stdev(values):.1f} over {len(values)} seeds" if len(values) > 1 else "one seed"
    return f"{percent(fmean(values))} %", spread


def _count(value: float) -> str:
    return f"{value:.0f}" if value == int(value) else f"{value:.1f}"
