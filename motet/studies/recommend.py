"""Which method to take, and why, in plain words; or that the runs do not suffice for an answer.

Methods are judged by one metric, the headline's; differences of methods are positive where the first is better. The
best method is the one with the best mean. A simpler method that may be as good is recommended instead of it: one whose
difference to the best has 0 in its interval and that is no more than the metric's margin behind (else few clients would
make all methods equal), or one that was still learning and might catch up (a method is not better because it trained
longer). Of methods that may be equal, only those with a low loss stand for choice: few test rows tell little of an
accuracy and more of probabilities. The choice is certain if it differs from the next best by more than chance,
corrected for all pairs of methods.

There is enough evidence if the choice is certain, or if no other method may be more than the margin better. Else the
answer says that there is not enough, and what would be; the choice is provisional. Then it is, of the simple methods
(each client alone, one model for all, that fine-tuned) which may be as good as the best, the one with the lowest loss.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from motet.metrics.metric import ACCURACY, Metric
from motet.metrics.statistics import CONTROL, Differences, Estimate
from motet.metrics.wording import points, signed_written, with_unit, written

CLIMBING = 1 / 3
"""A method that gains more than this part of the metric's margin in the last fifth of its rounds is still learning."""
CATCHES_UP = 1.5
"""A method that is still learning may catch up if it closes the gap in so many more fifths of its rounds."""
ENOUGH_ALONE = 50
"""Training rows that the median client needs before `local` is recommended for being simpler and as good."""
MOST_SIMPLE = 2
"""The highest simplicity of a provisional choice: each client alone, one model for all, or that fine-tuned."""
LOSSES_ALIKE = 0.02
"""Of methods that may be equal, those whose loss is at most this part above the lowest stand for choice."""
MOST_NAMES = 8
_ROUNDING = 1e-9  # of means over seeds


@dataclass(frozen=True)
class Candidate:
    """What is known of a method that can be recommended."""

    name: str
    estimate: Estimate
    simplicity: int
    bytes_per_round: float
    climb: float | None = None  # what it gained in the last fifth of the rounds
    failed: bool = False  # it diverged, or most of its runs predict one class only or learned nothing
    loss: float | None = None  # of its personal models on the test rows


@dataclass(frozen=True)
class Recommendation:
    """A method, why, and whether it is the winner by more than chance."""

    method: str
    reason: str
    certain: bool
    may_be_equal: tuple[str, ...]  # to the best one, in the order of their means
    enough_evidence: bool = True


def recommend(
    candidates: Sequence[Candidate],
    found: Differences,
    rows: float | None = None,
    metric: Metric = ACCURACY,
    would_settle: Callable[[str, str], str] = lambda a, b: "more clients, test rows or seeds would tell",
) -> Recommendation:
    """Return the recommendation among methods that ran on the same clients, judged by the metric.

    `rows` is how many training rows the median client has, where that is known; `would_settle` returns what would
    suffice to tell two methods apart where the evidence does not.
    """
    sound = [c for c in candidates if not c.failed] or list(candidates)
    ranked = sorted(sound, key=lambda c: (-metric.direction * c.estimate.mean, c.simplicity, c.bytes_per_round))
    best = ranked[0]
    equals = [c for c in ranked if c is best or _as_good(best, c, found, metric)]
    slow = [c for c in ranked if c not in equals and _may_catch_up(best, c, found, metric)]
    few = rows is not None and rows < ENOUGH_ALONE
    may_stand = [c for c in (*_of_low_loss(equals), *slow) if c.simplicity or not few] or [best]
    choice = min(may_stand, key=lambda c: (c.simplicity, c.bytes_per_round, ranked.index(c)))
    lonely = len(candidates) > 1 and sum(not c.failed for c in candidates) < 2  # nothing sound to compare it with
    certain = choice is best and len(ranked) > 1 and found.certain(choice.name, ranked[1].name)
    enough = not lonely and (
        certain or (not slow and not any(_may_be_better(c, choice, found, metric) for c in ranked if c is not choice))
    )
    simple = [] if enough or lonely or slow else _simple_by_loss(ranked, few, found, metric)
    if simple:
        choice = simple[0]
        certain = enough = False
    others = [c for c in ranked if c is not choice]
    sentences = [_why(choice, best, equals, others, certain, found, metric)]
    if simple:
        sentences = [_lowest_loss(simple, best, found, metric)]
    sentences += _control(choice, sound, found, metric)
    if choice in slow:
        sentences = [_slow_choice(choice, best, found, metric)]
    if lonely:
        what = "all methods" if choice.failed else "all other methods"
        sentences.insert(0, f"Not enough evidence: {what} failed, so that there is nothing to compare with.")
    elif not enough:
        sentences.insert(0, _not_enough(choice, slow, others, found, metric, would_settle))
    if any(c.failed for c in candidates) and len(sound) < len(candidates):
        sentences.append(f"Not taken, for they failed: {named([c.name for c in candidates if c.failed])}.")
    return Recommendation(choice.name, " ".join(sentences), certain, tuple(c.name for c in (*equals, *slow)), enough)


def _of_low_loss(equals: Sequence[Candidate]) -> list[Candidate]:
    """Return the best of methods that may be equal, the first, and those whose loss is about the lowest.

    Where the loss of one is not known, these are all.
    """
    losses = [c.loss for c in equals if c.loss is not None]
    if len(losses) < len(equals):
        return list(equals)
    most = min(losses) + LOSSES_ALIKE * abs(min(losses))
    return [c for c in equals if c is equals[0] or (c.loss is not None and c.loss <= most)]


def _simple_by_loss(ranked: Sequence[Candidate], few: bool, found: Differences, metric: Metric) -> list[Candidate]:
    """Return the simple methods that may be as good as the best, the lowest loss first; where a loss is not known, as
    of numbers, the best mean first.

    Where clients have few rows, `local` is none of them.
    """
    best = ranked[0]
    as_good = (c for c in ranked if c is best or _as_good(best, c, found, metric))
    simple = [c for c in as_good if few <= c.simplicity <= MOST_SIMPLE]
    losses = {c.name: c.loss for c in simple if c.loss is not None}
    return sorted(simple, key=lambda c: losses[c.name]) if len(losses) == len(simple) else simple


def _lowest_loss(simple: Sequence[Candidate], best: Candidate, found: Differences, metric: Metric) -> str:
    """Return why the first of them is the provisional choice."""
    choice = simple[0]
    reaches = f"{choice.name} reaches {_reached(choice, metric)}"
    if choice is not best:
        lead = _points(found.of(best.name, choice.name), metric)
        reaches = f"{reaches}; the best mean, of {best.name}, is {lead} better"
    losses = [f"{c.name} {c.loss:.3f}" for c in simple if c.loss is not None]
    if len(losses) < len(simple):
        return (
            f"{reaches}. It is the best of the simple methods: one model for all, that fine-tuned, each client alone."
        )
    return (
        f"{reaches}. Of the simple methods (one model for all, that fine-tuned, each client alone) it has the lowest "
        f"loss on the test rows ({', '.join(losses)}): where {metric.said} cannot tell, probabilities may."
    )


def _may_catch_up(best: Candidate, other: Candidate, found: Differences, metric: Metric) -> bool:
    """Return whether a simpler method that shares models was still learning, near enough to the best."""
    climbing = CLIMBING * metric.margin
    if other.climb is None or other.climb <= climbing or not 0 < other.simplicity < best.simplicity:
        return False
    closing = other.climb - max(best.climb or 0.0, 0.0)
    return found.of(best.name, other.name).mean <= CATCHES_UP * closing


def _may_be_better(other: Candidate, choice: Candidate, found: Differences, metric: Metric) -> bool:
    """Return whether the runs leave it open that another method is much better than the choice."""
    high = found.of(other.name, choice.name).high
    return high is None or high > metric.margin


def _not_enough(
    choice: Candidate,
    slow: Sequence[Candidate],
    others: Sequence[Candidate],
    found: Differences,
    metric: Metric,
    would_settle: Callable[[str, str], str],
) -> str:
    """Return what the runs leave open, and what would settle it."""
    if slow:
        names, more = named([c.name for c in slow]), "more --rounds"
        return f"Not enough evidence: {names} was still learning when its rounds ended; {more} would tell."
    open_to = [c.name for c in others if _may_be_better(c, choice, found, metric)]
    return (
        f"Not enough evidence: {named(open_to)} may be more than {margin_of(metric)} better than {choice.name}, or not "
        f"better at all; {would_settle(open_to[0], choice.name)}. {choice.name} is a provisional choice."
    )


def margin_of(metric: Metric) -> str:
    """Return the difference that matters in words: "3 points", or ".03"."""
    return f"{100 * metric.margin:.0f} points" if metric.percent else f"{metric.margin:.2g}".removeprefix("0")


def _slow_choice(choice: Candidate, best: Candidate, found: Differences, metric: Metric) -> str:
    lead = found.of(best.name, choice.name)
    return (
        f"{best.name} has the best mean, {_points(lead, metric)} better than {choice.name}; but {choice.name} is "
        f"simpler, gained {points(choice.climb or 0.0, metric)} in the last fifth of its rounds, more than {best.name} "
        f"did, and may get there."
    )


def _as_good(best: Candidate, other: Candidate, found: Differences, metric: Metric) -> bool:
    return found.of(best.name, other.name).mean <= metric.margin and found.may_be_equal(best.name, other.name)


def _why(
    choice: Candidate,
    best: Candidate,
    equals: Sequence[Candidate],
    others: Sequence[Candidate],
    certain: bool,
    found: Differences,
    metric: Metric,
) -> str:
    reaches = _reached(choice, metric)
    if not others:
        of = f" personal {metric.said}" if metric.percent else ""
        return f"{choice.name} is the only method to choose; it reaches {reaches}{of}."
    if certain:
        lead = found.of(choice.name, others[0].name)
        return (
            f"{_has_the_best(choice, metric)}: {_points(lead, metric)} better than {others[0].name}, the next best, "
            f"which is more than chance."
        )
    if len(equals) == len(others) + 1 and not any(found.certain(a.name, b.name) for a in equals for b in equals):
        return (
            f"No winner: all {len(equals)} methods may be equal here, their differences are no more than chance. "
            f"{choice.name} is the simplest of them{_and_likely(equals)} and reaches {reaches}."
        )
    if choice is not best:
        gap = found.of(best.name, choice.name)
        rest = [c.name for c in equals if c is not choice]
        return (
            f"{choice.name} reaches {reaches}. No method is better by more than chance: the best mean, "
            f"of {best.name}, is {_points(gap, metric)} better. It is the simplest of those that may be equal "
            f"({named(rest)}){_and_likely(equals)}."
        )
    lead = found.of(choice.name, others[0].name)
    return (
        f"{_has_the_best(choice, metric)}, but its lead over {others[0].name}, "
        f"{_points(lead, metric)}, may be chance{_among_many(lead, found)}."
    )


def _reached(choice: Candidate, metric: Metric) -> str:
    value = f"{with_unit(choice.estimate.mean, metric)}{_interval(choice.estimate, metric)}"
    return value if metric.percent else f"a personal {metric.said} of {value}"


def _and_likely(equals: Sequence[Candidate]) -> str:
    """Return words for a choice among methods of which some have too high a loss."""
    return " whose loss is about the lowest" if len(_of_low_loss(equals)) < len(equals) else ""


def _has_the_best(choice: Candidate, metric: Metric) -> str:
    value = f"{with_unit(choice.estimate.mean, metric)}{_interval(choice.estimate, metric)}"
    return f"{choice.name} has the best personal {metric.said}, {value}"


def _control(choice: Candidate, candidates: Sequence[Candidate], found: Differences, metric: Metric) -> list[str]:
    """Return how the choice compares with fine-tuning, which tables often leave out and which often wins."""
    names = [c.name for c in candidates]
    if CONTROL not in names or len(names) < 2:
        return []
    beating = [n for n in names if n != CONTROL and found.certain(n, CONTROL) and found.of(n, CONTROL).mean > 0]
    if not beating:
        return [f"No method beats fine-tuning ({CONTROL}) here by more than chance."]
    if choice.name == CONTROL:
        return []
    gap = found.of(choice.name, CONTROL)
    more = "more than chance" if found.certain(choice.name, CONTROL) else "which may be chance"
    return [f"Against fine-tuning ({CONTROL}): {_points(gap, metric)}, {more}."]


def hurt_sentence(names: Sequence[str], clients: int, than: str) -> str:
    """Return a sentence that names the clients which would be better off otherwise."""
    if not names:
        return f"No client would be better off {than}."
    return f"{len(names)} of {clients} clients would be better off {than}: {named(names)}."


def named(names: Sequence[str]) -> str:
    """Return names for a sentence; of many, the first ones and how many more there are."""
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def _among_many(lead: Estimate, found: Differences) -> str:
    """Return words for a lead that one interval alone would call certain, and many comparisons do not."""
    alone = lead.low is not None and lead.low > 0
    return f" where {len(found.pairs)} pairs of methods are compared" if alone else ""


def _interval(found: Estimate, metric: Metric) -> str:
    if found.low is None or found.high is None:
        return ""
    return f" (95 % interval {written(found.low, metric)} to {written(found.high, metric)})"


def _points(found: Estimate, metric: Metric) -> str:
    text = points(found.mean, metric)
    if found.low is None or found.high is None:
        return text
    return f"{text} ({signed_written(found.low, metric)} to {signed_written(found.high, metric)})"


def hurt(mine: Mapping[int, float], other: Mapping[int, float], direction: int = 1) -> list[int]:
    """Return the clients whose value is worse than the other one, the largest loss first.

    Worse is lower, or with the direction −1 higher.
    """
    losses = {client: direction * (other[client] - value) for client, value in mine.items() if client in other}
    return sorted((client for client, loss in losses.items() if loss > _ROUNDING), key=lambda client: -losses[client])


def still_learning(climbs: Mapping[str, float | None], metric: Metric = ACCURACY) -> list[str]:
    """Return a sentence that names the methods which were still learning when their rounds ended."""
    least = CLIMBING * metric.margin
    names = [name for name, gained in climbs.items() if gained is not None and gained > least]
    if not names:
        return []
    words = f"{100 * least:.0f} point" if metric.percent else f"{least:.2g}".removeprefix("0")
    return [
        f"Still learning: in the last fifth of the rounds {', '.join(names)} gained more than {words}, so more "
        f"--rounds may change the answer."
    ]
