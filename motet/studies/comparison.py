"""From the finished runs of a comparison to `ComparisonFile`: each method's figures, and which method to take."""

from collections.abc import Mapping, Sequence
from functools import partial
from math import ceil
from pathlib import Path

import numpy as np

from motet.errors import MotetError
from motet.metrics.metric import Metric
from motet.metrics.statistics import (
    CONTROL,
    LEVEL,
    Differences,
    Estimate,
    Table,
    accuracy,
    differences,
    estimate,
    growth_needed,
    splits_needed,
)
from motet.metrics.wording import percent, points, with_unit
from motet.studies.budget import Plan
from motet.studies.comparison_file import (
    FORMAT,
    ComparisonFile,
    GenericScore,
    MethodDifference,
    MethodResult,
    NewClientScore,
    RecommendedMethod,
    Score,
    YardstickResult,
    in_paragraphs,
)
from motet.studies.protocol import sentences
from motet.studies.recommend import Candidate, hurt, hurt_sentence, margin_of, recommend, still_learning
from motet.studies.results import Ran, Results, table_of
from motet.studies.study_methods import StudyMethod, StudyMethods
from motet.studies.survey import rare_class, said_of_clients, survey
from motet.studies.tune import chosen
from motet.studies.tuning import Tuned
from motet.studies.yardsticks import Outside

MOST_REPEATS = 30
"""More splits than that are not worth the time: other evidence is needed."""
UNEVEN = 3
"""Where the largest client has so many times the test rows of the smallest, it is said what counting by rows gives."""
_ROUNDING = 1e-12  # of means over runs that are alike


def judged(
    results: Results,
    study: StudyMethods,
    tuned: Mapping[str, Tuned],
    plan: Plan,
    folder: Path,
    outside: Sequence[Outside] | None = None,
) -> ComparisonFile:
    """Return what comparison.json holds, from the results of finished runs."""
    by_name = study.by_name()
    found = differences(results.goodness, resplits=results.resplits)
    candidates = [
        Candidate(
            name,
            _estimate(ran.personal, results),
            by_name[name].simplicity,
            ran.bytes_per_round or 0.0,
            ran.climb,
            ran.failed,
            ran.loss,
        )
        for name, ran in results.methods.items()
        if not by_name[name].yardstick
    ]
    if not candidates:
        raise MotetError("only yardsticks ran, which are no choice for a federation; accepted: other --methods too")
    answer = recommend(candidates, found, results.median_rows, results.metric, partial(would_settle, results))
    methods = {
        name: _of_method(name, ran, results, tuned[name], by_name[name], folder, found, answer.method)
        for name, ran in results.methods.items()
    }
    best = methods[answer.method]
    clients = survey(results, answer.method)
    outside_scores = _yardsticks(outside or (), results, answer.method)
    climbs = {name: results.methods[name].climb for name in (answer.method, *answer.may_be_equal)}
    return ComparisonFile(
        format=FORMAT,
        recommended=RecommendedMethod(
            method=answer.method,
            options=best.options,
            expression=best.expression,
            reason=in_paragraphs(
                [*_ahead_from_outside(outside_scores, results.metric, answer.method), answer.reason],
                _without_motet(outside_scores, results.metric, best),
                [*said_of_clients(clients, answer.method), *at_the_threshold(results, answer.method)],
                counted_by_rows(results, answer.method, [each.name for each in candidates]),
                [*_more(best, results), *still_learning(climbs, results.metric)],
            ),
            certain=answer.certain,
            enough_evidence=answer.enough_evidence,
            may_be_equal=answer.may_be_equal,
        ),
        methods=tuple(sorted(methods.values(), key=lambda each: -results.metric.direction * each.personal.mean)),
        clients=clients,
        left_out=dict(study.left_out),
        figure=str(results.figure),
        notes=(*sentences(plan, study, tuned, results), *study.said_of_the_data()),
        yardsticks=outside_scores,
        metric=results.figure.metric,
        higher_is_better=results.metric.higher_is_better,
        majority=results.majority,
        rare_class=_rare_class(results),
    )


def _rare_class(results: Results) -> str | None:
    rare, names = rare_class(results), results.clients_info.classes
    return None if rare is None else names[rare] if rare < len(names) else str(rare)


def would_settle(results: Results, a: str, b: str) -> str:
    """Return how much evidence would tell whether two methods differ by the metric's margin, from what was observed."""
    gap = results.goodness[a] - results.goodness[b]
    growth = growth_needed(gap, results.metric.margin, results.resplits)
    rows, clients = sum(results.test_rows) * results.splits, len(results.clients)
    if growth is None or growth <= 1:
        return "more clients, test rows or seeds would tell"
    margin = margin_of(results.metric)
    if not rows:
        return f"with {clients} clients a difference of {margin} needs about {about(clients * growth)} clients"
    splits = f" in {results.splits} splits" if results.splits > 1 else ""
    repeats = splits_needed(gap, results.metric.margin, results.resplits)
    enough = repeats is not None and repeats <= MOST_REPEATS
    way = f", or {repeats} splits of the same rows (--repeats {repeats})" if enough else ""
    return (
        f"with {clients} clients and {rows} test rows{splits} a difference of {margin} needs about "
        f"{about(rows * growth)} test rows{way}"
    )


def about(number: float) -> str:
    """Return a number with two digits that count: 854 as 860, rounded up."""
    step = 10 ** max(0, len(str(int(number))) - 2)
    return f"{ceil(number / step) * step:,}".replace(",", " ")


def counted_by_rows(results: Results, choice: str, names: Sequence[str]) -> list[str]:
    """Return a sentence where another method is the best once clients count by their test rows.

    Clients count alike in all figures. Where some have many times the rows of others, the small ones are mostly noise.
    """
    rows = np.array(results.test_rows, dtype=float)
    if not len(rows) or rows.max() < UNEVEN * max(rows.min(), 1):
        return []
    by_rows = {name: float(results.goodness[name].mean(1) @ rows / rows.sum()) for name in names}
    best = max(by_rows, key=lambda name: by_rows[name])
    said = f"Clients count alike, though they have from {rows.min():.0f} to {rows.max():.0f} test rows"
    if best == choice:
        return [f"{said}; counted by rows {choice} is the best too."]
    lead = points(by_rows[best] - by_rows[choice], results.metric)
    return [f"{said}; counted by rows {best} is the best, {lead} better than {choice}."]


def at_the_threshold(results: Results, choice: str) -> list[str]:
    """Return what the choice's thresholds give on test rows, and what those of others do; nothing where none is known.

    Whoever asked for a recall chooses a model by what it costs in false alarms.
    """
    known = {name: ran.at_threshold for name, ran in results.methods.items() if ran.at_threshold}
    if choice not in known:
        return []
    words = {name: f"{percent(of['recall'])} % and {percent(of['precision'])} %" for name, of in known.items()}
    others = "; ".join(f"{name} {text}" for name, text in words.items() if name != choice)
    rare = results.clients_info.classes[1] if len(results.clients_info.classes) > 1 else "the second class"
    return [
        f"With thresholds that validation rows chose for {results.threshold}, {choice} has recall and precision of "
        f"{rare} of {words[choice]} on all clients' test rows{f' ({others})' if others else ''}."
    ]


def _yardsticks(outside: Sequence[Outside], results: Results, recommended: str) -> tuple[YardstickResult, ...]:
    """Return the yardsticks from outside beside the recommended method, on the clients that all of them score."""
    mine = results.methods[recommended].personal
    found = []
    for each in outside:
        table = table_of(each.columns, results.clients)
        if table is None:
            continue
        lead = estimate(results.metric.direction * (table - mine), results.resplits)
        certain = lead.p is not None and lead.p < 1 - LEVEL
        to = MethodDifference(to=recommended, mean=lead.mean, interval=_interval(lead), p=lead.p, certain=certain)
        found.append(
            YardstickResult(name=each.name, personal=_score(table, results), to_recommended=to, settings=each.settings)
        )
    return tuple(found)


def _ahead_from_outside(outside: Sequence[YardstickResult], metric: Metric, choice: str) -> list[str]:
    """Return a sentence about yardsticks that are ahead of the recommended method by more than chance."""
    ahead = [each for each in outside if each.to_recommended.certain and each.to_recommended.mean > 0]
    said = [f"{each.name} ({points(each.to_recommended.mean, metric)})" for each in ahead]
    if not said:
        return []
    alone = any(each.name.startswith("alone") for each in ahead)
    advice = "Do not federate: clients are better off with scikit-learn alone. " if alone else ""
    return [f"{advice}Ahead of {choice} by more than chance, on the same rows: {', '.join(said)}."]


def _without_motet(outside: Sequence[YardstickResult], metric: Metric, choice: MethodResult) -> list[str]:
    """Return what clients would have without Motet, alone and with everybody's rows in one place, and what it gives."""
    values = {
        words: [each.personal.mean for each in outside if each.name.startswith(start)]
        for start, words in (("alone", "alone"), ("pooled", "with everybody's rows in one place"))
    }
    best = {words: max(of, key=lambda v: metric.direction * v) for words, of in values.items() if of}
    if not best:
        return []
    said = [f"{words} {with_unit(value, metric)}" for words, value in best.items()]
    return [
        f"Without Motet, by scikit-learn on the same rows: {', '.join(said)}; {choice.method} has "
        f"{with_unit(choice.personal.mean, metric)}."
    ]


def _of_method(
    name: str,
    ran: Ran,
    results: Results,
    tuned: Tuned,
    method: StudyMethod,
    folder: Path,
    found: Differences,
    recommended: str,
) -> MethodResult:
    assert tuned.setting is not None
    hurts = {
        than: None
        if other is None
        else hurt(_by_client(ran.personal, results), _by_client(other, results), results.metric.direction)
        for than, other in (("local", _personal(results, "local", name)), ("fedavg", _generic(results, name)))
    }
    alone, together = hurts["local"], hurts["fedavg"]
    generic = None if ran.generic is None else _score(ran.generic, results)
    new = ran.new_clients
    return MethodResult(
        method=name,
        options=tuned.setting,
        expression=chosen(method, tuned).method,
        yardstick=method.yardstick,
        personal=_score(ran.personal, results),
        generic=None if generic is None else GenericScore(**generic.model_dump(), common=ran.common),
        worst_client=worst_of(ran.personal, results.metric),
        hurt=None if alone is None else len(alone),
        hurt_clients=None if alone is None else tuple(map(results.name, alone)),
        hurt_vs_fedavg=None if together is None else len(together),
        hurt_vs_fedavg_clients=None if together is None else tuple(map(results.name, together)),
        bytes_per_round=ran.bytes_per_round,
        seconds=ran.seconds,
        new_clients=None if new is None else NewClientScore(before=new.get("before"), after=new.get("after")),
        runs=tuple(path.relative_to(folder).as_posix() for path in ran.folders),
        climb=ran.climb,
        warnings=ran.warnings,
        trials=tuple(trial.result() for trial in tuned.trials),
        difference=_difference(found, name, CONTROL) if CONTROL in results.methods else None,
        to_recommended=_difference(found, name, recommended),
        pooled=ran.pooled,
    )


def _estimate(table: Table, results: Results) -> Estimate:
    return (accuracy if results.metric.is_share else estimate)(table, results.resplits)


def worst_of(table: Table, metric: Metric) -> float:
    """Return the worst client of a run, mean over runs, as the tables of runs have it."""
    return float((table.min(0) if metric.higher_is_better else table.max(0)).mean())


def _score(table: Table, results: Results) -> Score:
    """Return the mean over clients and seeds, the standard deviation over seeds and the 95 % interval."""
    found, by_seed = _estimate(table, results), table.mean(0)
    std = float(by_seed.std(ddof=1)) if len(by_seed) > 1 else None
    if std is not None and std < _ROUNDING * abs(found.mean):
        std = 0.0  # equal but for the last digits of sums
    return Score(mean=found.mean, std=std, interval=_interval(found))


def _difference(found: Differences, name: str, to: str) -> MethodDifference | None:
    """Return how much better the method is than the other one; None for a method and itself."""
    if name == to:
        return None
    gap = found.of(name, to)
    return MethodDifference(to=to, mean=gap.mean, interval=_interval(gap), p=gap.p, certain=found.certain(name, to))


def _interval(found: Estimate) -> tuple[float, float] | None:
    return None if found.low is None or found.high is None else (found.low, found.high)


def _personal(results: Results, of: str, beside: str) -> Table | None:
    return results.methods[of].personal if of in results.methods and of != beside else None


def _generic(results: Results, beside: str) -> Table | None:
    """Return the table of FedAvg's generic model, which all clients share."""
    return results.methods["fedavg"].generic if "fedavg" in results.methods and beside != "fedavg" else None


def _by_client(table: Table, results: Results) -> dict[int, float]:
    return dict(zip(results.clients, np.mean(table, 1).tolist(), strict=True))


def _more(method: MethodResult, results: Results) -> list[str]:
    """Return sentences about who is hurt, what is sent and what new clients get."""
    said = []
    clients = len(results.clients)
    if method.hurt_clients is not None:
        said.append(hurt_sentence(method.hurt_clients, clients, "alone"))
    if method.hurt_vs_fedavg_clients is not None:
        said.append(hurt_sentence(method.hurt_vs_fedavg_clients, clients, "with FedAvg's one model"))
    sent = method.bytes_per_round
    if sent is not None:
        some = f"{sent / 1e6:.2f} MB" if sent >= 5000 else f"{sent:.0f} bytes"
        said.append(f"It sends {some} per round." if sent else "It sends nothing.")
    if new := method.new_clients:
        scores = {"before": new.before, "after": new.after}
        words = [f"{with_unit(value, results.metric)} {when}" for when, value in scores.items() if value is not None]
        said.append(f"New clients get {' and '.join(words)} adaptation.")
    return said
