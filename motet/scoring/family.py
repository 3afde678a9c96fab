"""Methods whose personal models are a family (SuPerFed's line): which member is reported, by which rule.

`common_best`  the member with the best mean over clients on test data: one choice for everybody (SuPerFed's captions)
`validation`   each client's best on its own validation data: the only rule a real client could follow
`oracle`       each client's best on its own test data: an upper bound, not a result (SuPerFed's released code)
`fixed`        one member named in advance
"""

from collections.abc import Mapping, Sequence
from statistics import fmean

from motet.message import Message

TESTS = ("weighted", "split", "validation")
Rule = str


def choose(replies: Sequence[Message], family: Sequence[str], fixed: str, test: str) -> dict[Rule, list[str]]:
    """For every rule that can be followed, the member chosen for each client."""
    rules = {"fixed": [fixed] * len(replies)}
    if any(f"member.{name}.{test}" not in r for r in replies for name in family):
        return rules
    best = max(family, key=lambda name: fmean(float(r[f"member.{name}.{test}"]) for r in replies))
    rules["common_best"] = [best] * len(replies)
    rules["oracle"] = [_best(r, family, test) for r in replies]
    if all(f"member.{name}.validation" in r for r in replies for name in family):
        rules["validation"] = [_best(r, family, "validation") for r in replies]
    return rules


def report(reply: Message, member: str) -> Message:
    """A client's reply with that member as its personal model."""
    chosen = {f"personal.{t}": reply[f"member.{member}.{t}"] for t in TESTS if f"member.{member}.{t}" in reply}
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
    return {
        rule: fmean(float(r[f"member.{member}.{test}"]) for r, member in zip(replies, members, strict=True))
        for rule, members in rules.items()
        if all(f"member.{member}.{test}" in r for r, member in zip(replies, members, strict=True))
    }


def _best(reply: Message, family: Sequence[str], test: str) -> str:
    return max(family, key=lambda name: float(reply[f"member.{name}.{test}"]))
