"""Methods whose personal models are a family (SuPerFed's line): which member is reported, by which rule.

`common_best`        the best mean over clients on test data: one choice for everybody (SuPerFed's captions)
`common_validation`  the best mean over clients on validation data: the same, without a look at test data
`validation`         each client's best on its own validation data, of which it needs many rows
`oracle`             each client's best on its own test data: an upper bound, not a result (SuPerFed's released code)
`fixed`              one member named in advance

Of equally good members the first is taken. A client without the data to choose by gets the fixed member.
The record has every member's mean over clients (`member:0.4.split.accuracy.mean`), and what each rule would report
(`rule:oracle.split.accuracy.mean`).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from motet.messages.message import Message
from motet.metrics.metric import ACCURACY, Metric
from motet.metrics.names import DATA, GENERIC, PERSONAL, MetricName, diverged, member, rule
from motet.metrics.pairs import is_of_a_pair_of_members
from motet.metrics.pooling import renamed, without_pooled

Rule = str
Scored = Mapping[str, Any]  # a client's reply, or its row in the record


def choose(
    replies: Sequence[Scored], family: Sequence[str], fixed: str, data: str, metric: Metric = ACCURACY
) -> dict[Rule, list[str]]:
    """Return the member chosen for each client, by every rule for which some client has the data."""
    rules = {"fixed": [fixed] * len(replies)}
    if curve := _means(replies, family, data, metric):
        rules["common_best"] = [_best(curve, metric)] * len(replies)
        rules["oracle"] = _each_best(replies, family, fixed, data, metric)
    if curve := _means(replies, family, "validation", metric):
        rules["common_validation"] = [_best(curve, metric)] * len(replies)
        rules["validation"] = _each_best(replies, family, fixed, "validation", metric)
    return rules


def chosen_by(asked: Rule, rules: Mapping[Rule, list[str]]) -> list[str]:
    """Return the members that a rule chose, or the fixed ones if no client has the data for the rule."""
    return rules.get(asked, rules["fixed"])


def reported(
    rows: Sequence[Scored], family: Sequence[str], fixed: str, asked: Rule, data: str, metric: Metric = ACCURACY
) -> dict[int, str]:
    """Return the member that each client reports, by client id, from the rows of one round."""
    scored = {row["client"]: row for row in rows if "client" in row and row.get("set_aside") is None}
    chosen = chosen_by(asked, choose(list(scored.values()), family, fixed, data, metric))
    return dict(zip(scored, chosen, strict=True))


def report(reply: Message, name: str) -> Message:
    """Return a client's reply with that member as its personal model, without comparisons of other members."""
    own = member(name)
    result = without_pooled(reply) | renamed(reply, own, PERSONAL) | renamed(reply, GENERIC, GENERIC)
    for column, value in reply.items():
        figure = MetricName.read(column)
        if figure is not None and figure.model == own:
            result[str(MetricName(PERSONAL, figure.data, figure.metric))] = value
    if diverged(own) in reply:
        result[diverged(PERSONAL)] = reply[diverged(own)]
    return {column: value for column, value in result.items() if not is_of_a_pair_of_members(column)}


def sweep(replies: Sequence[Scored], family: Sequence[str], metric: Metric = ACCURACY) -> dict[str, float]:
    """Return the mean over clients of every member on every kind of test data, for the curve."""
    metrics = dict.fromkeys((ACCURACY.name, metric.name))
    figures = [MetricName(member(name), data, each) for each in metrics for name in family for data in DATA]
    return {str(f.over("mean")): mean for f in figures if (mean := _mean(replies, f)) is not None}


def by_rule(
    replies: Sequence[Message], rules: Mapping[Rule, Sequence[str]], data: str, metric: Metric = ACCURACY
) -> dict[str, float]:
    """Return the mean over clients that each rule would report."""
    figures: dict[str, float] = {}
    for name, members in rules.items():
        chosen = [report(reply, one) for reply, one in zip(replies, members, strict=True)]
        mean = _mean(chosen, MetricName(PERSONAL, data, metric.name))
        if mean is not None:
            figures[str(MetricName(rule(name), data, metric.name, "mean"))] = mean
    return figures


def tally(members: Sequence[str]) -> dict[str, int]:
    """Return how many clients have each member."""
    return dict(sorted(Counter(members).items()))


def _each_best(replies: Sequence[Scored], family: Sequence[str], fixed: str, data: str, metric: Metric) -> list[str]:
    scores = (_scores(reply, family, data, metric) for reply in replies)
    return [_best(mine, metric) if mine else fixed for mine in scores]


def _scores(reply: Scored, family: Sequence[str], data: str, metric: Metric) -> dict[str, float]:
    """Return a client's own value of each member."""
    own = {name: MetricName(member(name), data, metric.name).of(reply) for name in family}
    return {name: value for name, value in own.items() if value is not None}


def _means(replies: Sequence[Scored], family: Sequence[str], data: str, metric: Metric) -> dict[str, float]:
    """Return the mean over clients of each member that has one."""
    figures = {name: MetricName(member(name), data, metric.name) for name in family}
    return {name: mean for name, figure in figures.items() if (mean := _mean(replies, figure)) is not None}


def _mean(replies: Sequence[Scored], figure: MetricName) -> float | None:
    values = [value for reply in replies if (value := figure.of(reply)) is not None]
    return fmean(values) if values else None


def _best(scores: Mapping[str, float], metric: Metric) -> str:
    return max(scores, key=lambda name: metric.direction * scores[name])
