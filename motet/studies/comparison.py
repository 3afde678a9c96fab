"""comparison.json: what the finished runs of a comparison say, method by method, and which one to take."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from motet.errors import MotetError
from motet.metrics.statistics import CONTROL, Estimate, Table, accuracy, differences
from motet.studies.budget import Plan
from motet.studies.contestants import Contest, Contestant
from motet.studies.protocol import sentences
from motet.studies.recommend import Candidate, hurt, hurt_sentence, recommend, still_learning
from motet.studies.results import Ran, Results
from motet.studies.tune import chosen
from motet.studies.tuning import Tuned

FORMAT = 1


def judged(results: Results, field: Contest, tuned: Mapping[str, Tuned], plan: Plan, folder: Path) -> dict[str, Any]:
    """comparison.json."""
    by_name = field.by_name()
    found = differences(results.personal)
    candidates = [
        Candidate(
            name,
            accuracy(ran.personal),
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
    answer = recommend(candidates, found, results.median_rows)
    methods = []
    for name, ran in results.methods.items():
        methods.append(_of_method(name, ran, results, tuned[name], by_name[name], folder))
        if name != CONTROL and CONTROL in results.methods:
            methods[-1]["difference"] = _difference(found.of(name, CONTROL), CONTROL, found.certain(name, CONTROL))
        if name != answer.method:
            gap = found.of(name, answer.method)
            methods[-1]["to_recommended"] = _difference(gap, answer.method, found.certain(name, answer.method))
    chosen_one = next(each for each in methods if each["method"] == answer.method)
    climbs = {name: results.methods[name].climb for name in (answer.method, *answer.may_be_equal)}
    return {
        "format": FORMAT,
        "recommended": {
            "method": answer.method,
            "options": chosen_one["options"],
            "expression": chosen_one["expression"],
            "reason": " ".join([answer.reason, *_more(chosen_one, results), *still_learning(climbs)]),
            "certain": answer.certain,
            "enough_evidence": answer.enough_evidence,
            "may_be_equal": list(answer.may_be_equal),
        },
        "methods": sorted(methods, key=lambda each: -each["personal"]["mean"]),
        "clients": _clients(results),
        "left_out": dict(field.left_out),
        "figure": str(results.figure),
        "notes": sentences(plan, field, tuned, results),
    }


def _of_method(
    name: str, ran: Ran, results: Results, tuned: Tuned, contestant: Contestant, folder: Path
) -> dict[str, Any]:
    hurts = {
        than: None if other is None else hurt(_by_client(ran.personal, results), _by_client(other, results))
        for than, other in (("local", _personal(results, "local", name)), ("fedavg", _generic(results, name)))
    }
    alone, together = hurts["local"], hurts["fedavg"]
    return {
        "method": name,
        "options": tuned.setting,
        "expression": chosen(contestant, tuned).method,
        "yardstick": contestant.yardstick,
        "personal": _summed_up(ran.personal),
        "generic": None if ran.generic is None else _summed_up(ran.generic) | {"common": ran.common},
        "worst_client": float(ran.personal.mean(1).min()),
        "hurt": None if alone is None else len(alone),
        "hurt_clients": None if alone is None else [results.name(client) for client in alone],
        "hurt_vs_fedavg": None if together is None else len(together),
        "hurt_vs_fedavg_clients": None if together is None else [results.name(client) for client in together],
        "bytes_per_round": ran.bytes_per_round,
        "seconds": ran.seconds,
        "new_clients": ran.new_clients,
        "runs": [path.relative_to(folder).as_posix() for path in ran.folders],
        "climb": ran.climb,
        "warnings": list(ran.warnings),
        "trials": [trial.as_json() for trial in tuned.trials],
    }


def _summed_up(table: Table) -> dict[str, Any]:
    """Mean over clients and seeds, standard deviation over seeds, 95 % interval."""
    found, by_seed = accuracy(table), table.mean(0)
    std = float(by_seed.std(ddof=1)) if len(by_seed) > 1 else None
    return {"mean": found.mean, "std": std, "interval": found.interval}


def _difference(found: Estimate, to: str, certain: bool) -> dict[str, Any]:
    return {"to": to, "mean": found.mean, "interval": found.interval, "p": found.p, "certain": certain}


def _personal(results: Results, of: str, beside: str) -> Table | None:
    return results.methods[of].personal if of in results.methods and of != beside else None


def _generic(results: Results, beside: str) -> Table | None:
    """FedAvg's model, which is the one for all."""
    return results.methods["fedavg"].generic if "fedavg" in results.methods and beside != "fedavg" else None


def _by_client(table: Table, results: Results) -> dict[int, float]:
    return dict(zip(results.clients, np.mean(table, 1).tolist(), strict=True))


def _clients(results: Results) -> list[dict[str, Any]]:
    """Each client's mean over seeds with every method."""
    values = {name: _by_client(ran.personal, results) for name, ran in results.methods.items()}
    return [
        {"id": client, "name": results.name(client), "personal": {name: of[client] for name, of in values.items()}}
        for client in results.clients
    ]


def _more(method: Mapping[str, Any], results: Results) -> list[str]:
    """Who is hurt, what is sent, what new clients get."""
    said = []
    clients = len(results.clients)
    if method["hurt_clients"] is not None:
        said.append(hurt_sentence(method["hurt_clients"], clients, "alone"))
    if method["hurt_vs_fedavg_clients"] is not None:
        said.append(hurt_sentence(method["hurt_vs_fedavg_clients"], clients, "with FedAvg's one model"))
    sent = method["bytes_per_round"]
    if sent is not None:
        said.append(f"It sends {sent / 1e6:.2f} MB per round." if sent else "It sends nothing.")
    if new := method["new_clients"]:
        words = [f"{100 * new[when]:.1f} % {when}" for when in ("before", "after") if when in new]
        said.append(f"New clients get {' and '.join(words)} adaptation.")
    return said
