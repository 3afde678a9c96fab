"""Methods whose personal models are a family (SuPerFed's line): which member is reported, by which rule.

`common_best`  the best mean over clients on test data: one choice for everybody (SuPerFed's captions)
`validation`   each client's best on its own validation data: the only choice a real client could make for itself
`oracle`       each client's best on its own test data: an upper bound, not a result (SuPerFed's released code)
`fixed`        one member named in advance

Of equally good members the first of the family is taken. A client that lacks the data to choose by has the fixed one.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean

from motet.message import Message

TESTS = ("weighted", "split", "validation")
Rule = str


def choose(replies: Sequence[Message], family: Sequence[str], fixed: str, test: str) -> dict[Rule, list[str]]:
    """The member chosen for each client, by every rule for which some client has the data."""
    curve = {name: figures[test] for name, figures in sweep(replies, family).items() if test in figures}
    rules = {"fixed": [fixed] * len(replies)}
    if curve:
        rules["common_best"] = [_best(curve)] * len(replies)
        rules["oracle"] = _each_best(replies, family, fixed, test)
    if any(_scores(reply, family, "validation") for reply in replies):
        rules["validation"] = _each_best(replies, family, fixed, "validation")
    return rules


def report(reply: Message, member: str) -> Message:
    """A client's reply with that member as its personal model."""
    chosen = {
        f"personal.{t}": reply[f"member.{member}.{t}"] for t in (*TESTS, "diverged") if f"member.{member}.{t}" in reply
    }
    return reply | chosen


def sweep(replies: Sequence[Message], family: Sequence[str]) -> dict[str, dict[str, float]]:
    """The mean over clients of every member on every kind of test data, for the curve."""
    curve: dict[str, dict[str, float]] = {}
    for name in family:
        for test in TESTS:
            values = [float(r[key]) for r in replies if (key := f"member.{name}.{test}") in r]
            if values:
                curve.setdefault(name, {})[test] = fmean(values)
    return curve


def by_rule(replies: Sequence[Message], rules: Mapping[Rule, Sequence[str]], test: str) -> dict[Rule, float]:
    """The mean over clients that each rule would report."""
    figures: dict[Rule, float] = {}
    for rule, members in rules.items():
        chosen = [report(reply, member) for reply, member in zip(replies, members, strict=True)]
        values = [float(r[f"personal.{test}"]) for r in chosen if f"personal.{test}" in r]
        if values:
            figures[rule] = fmean(values)
    return figures


def tally(members: Sequence[str]) -> dict[str, int]:
    """How many clients have which member."""
    return dict(sorted(Counter(members).items()))


def _each_best(replies: Sequence[Message], family: Sequence[str], fixed: str, test: str) -> list[str]:
    scores = (_scores(reply, family, test) for reply in replies)
    return [_best(mine) if mine else fixed for mine in scores]


def _scores(reply: Message, family: Sequence[str], test: str) -> dict[str, float]:
    """A client's own figures, by member."""
    return {name: float(reply[key]) for name in family if (key := f"member.{name}.{test}") in reply}


def _best(scores: Mapping[str, float]) -> str:
    return max(scores, key=lambda name: scores[name])
