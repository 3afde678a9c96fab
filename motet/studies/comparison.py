"""From the finished runs of a comparison to `ComparisonFile`: each method's figures, and which method to take."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from motet.errors import MotetError
from motet.metrics.metric import Metric
from motet.metrics.statistics import CONTROL, LEVEL, Differences, Estimate, Table, accuracy, differences, estimate
from motet.metrics.wording import with_unit
from motet.studies.budget import Plan
from motet.studies.comparison_file import (
    FORMAT,
    ClientResult,
    ComparisonFile,
    GenericScore,
    MethodDifference,
    MethodResult,
    NewClientScore,
    RecommendedMethod,
    Score,
    YardstickResult,
)
from motet.studies.protocol import sentences
from motet.studies.recommend import Candidate, hurt, hurt_sentence, recommend, still_learning
from motet.studies.results import Ran, Results, table_of
from motet.studies.study_methods import StudyMethod, StudyMethods
from motet.studies.tune import chosen
from motet.studies.tuning import Tuned
from motet.studies.yardsticks import Outside


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
    found = differences(results.goodness)
    candidates = [
        Candidate(
            name,
            _estimate(ran.personal, results.metric),
            by_name[name].simplicity,
            ran.bytes_per_round or 0.0,
            ran.climb,
            bool(ran.warnings),
        )
        for name, ran in results.methods.items()
        if not by_name[name].yardstick
    ]
    if not candidates:
        raise MotetError("only yardsticks ran, which are no choice for a federation; accepted: other --methods too")
    answer = recommend(candidates, found, results.median_rows, results.metric)
    methods = {
        name: _of_method(name, ran, results, tuned[name], by_name[name], folder, found, answer.method)
        for name, ran in results.methods.items()
    }
    best = methods[answer.method]
    climbs = {name: results.methods[name].climb for name in (answer.method, *answer.may_be_equal)}
    return ComparisonFile(
        format=FORMAT,
        recommended=RecommendedMethod(
            method=answer.method,
            options=best.options,
            expression=best.expression,
            reason=" ".join([answer.reason, *_more(best, results), *still_learning(climbs, results.metric)]),
            certain=answer.certain,
            enough_evidence=answer.enough_evidence,
            may_be_equal=answer.may_be_equal,
        ),
        methods=tuple(sorted(methods.values(), key=lambda each: -results.metric.direction * each.personal.mean)),
        clients=_clients(results),
        left_out=dict(study.left_out),
        figure=str(results.figure),
        notes=(*sentences(plan, study, tuned, results), *study.said_of_the_data()),
        yardsticks=_yardsticks(outside or (), results, answer.method),
        metric=results.figure.metric,
        higher_is_better=results.metric.higher_is_better,
        majority=results.majority,
    )


def _yardsticks(outside: Sequence[Outside], results: Results, recommended: str) -> tuple[YardstickResult, ...]:
    """Return the yardsticks from outside beside the recommended method, on the clients that all of them score."""
    mine = results.methods[recommended].personal
    found = []
    for each in outside:
        table = table_of(each.columns, results.clients)
        if table is None:
            continue
        lead = estimate(results.metric.direction * (table - mine))
        certain = lead.p is not None and lead.p < 1 - LEVEL
        to = MethodDifference(to=recommended, mean=lead.mean, interval=_interval(lead), p=lead.p, certain=certain)
        found.append(
            YardstickResult(
                name=each.name, personal=_score(table, results.metric), to_recommended=to, settings=each.settings
            )
        )
    return tuple(found)


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
    generic = None if ran.generic is None else _score(ran.generic, results.metric)
    new = ran.new_clients
    return MethodResult(
        method=name,
        options=tuned.setting,
        expression=chosen(method, tuned).method,
        yardstick=method.yardstick,
        personal=_score(ran.personal, results.metric),
        generic=None if generic is None else GenericScore(**generic.model_dump(), common=ran.common),
        worst_client=_worst(ran.personal, results.metric),
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
    )


def _estimate(table: Table, metric: Metric) -> Estimate:
    return accuracy(table) if metric.is_share else estimate(table)


def _worst(table: Table, metric: Metric) -> float:
    """Return the worst client's mean over seeds."""
    means = table.mean(1)
    return float(means.min() if metric.higher_is_better else means.max())


def _score(table: Table, metric: Metric) -> Score:
    """Return the mean over clients and seeds, the standard deviation over seeds and the 95 % interval."""
    found, by_seed = _estimate(table, metric), table.mean(0)
    std = float(by_seed.std(ddof=1)) if len(by_seed) > 1 else None
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


def _clients(results: Results) -> tuple[ClientResult, ...]:
    """Return each client's mean over seeds with every method."""
    values = {name: _by_client(ran.personal, results) for name, ran in results.methods.items()}
    return tuple(
        ClientResult(id=client, name=results.name(client), personal={name: of[client] for name, of in values.items()})
        for client in results.clients
    )


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
        said.append(f"It sends {sent / 1e6:.2f} MB per round." if sent else "It sends nothing.")
    if new := method.new_clients:
        scores = {"before": new.before, "after": new.after}
        words = [f"{with_unit(value, results.metric)} {when}" for when, value in scores.items() if value is not None]
        said.append(f"New clients get {' and '.join(words)} adaptation.")
    return said
