"""What the five systems cost: time per round relative to FedAvg on the same data, net, cohort and local rule."""

from dataclasses import dataclass
from statistics import median
from typing import Any

from motet.config.nesting import merge
from throughput_parts.contest import Result, contest
from throughput_parts.workloads import DBE_CNN, FEDROD_CONV, NEVER, TWONN, Values, Workload

NAME = "systems"
WHAT = "time per round of the five systems relative to FedAvg, by Motet's pool, without scoring"


@dataclass(frozen=True)
class Comparison:
    """Systems that share a setting; `epochs` are those that each does for one of FedAvg's."""

    workload: Workload
    systems: dict[str, str]
    epochs: int = 1


PGFED = Workload(
    "pgfed-cnn",
    "4-layer CNN, 4 of 25 clients, batch 10, 5 epochs (PGFed's setting)",
    {"protocol": "pgfed", "net": {"name": "cnn4"}, "data": {"subset": 0.2}, "rounds": {"cohort": 4.0}},
    {"data": {"subset": 0.1}},
)
FEDBASIS = Workload(
    "fedbasis-cnn",
    "4-layer CNN, some of 20 clients, batch 16, 1 epoch of each phase (FedBasis' setting, which has 5)",
    {"protocol": "fedbasis", "net": {"name": "cnn4"}, "rounds": {"cohort": 4.0}, "local": {"epochs": 1}},
    {"rounds": {"cohort": 2.0}},
)
# FedAvg trains groups of such nets as one computation, SuPerFed does not: a step is compared with a step.
ALONE = Workload(TWONN.name, TWONN.what, merge(TWONN.setting, {"local": {"batched_clients": False}}), TWONN.quick)
COMPARISONS = (
    # SuPerFed with personalization from the first round on
    Comparison(
        FEDROD_CONV,
        {
            "fedrod-hyper": "fedrod(head=hyper)",
            "fedrod-linear": "fedrod(head=linear)",
            "superfed-mm": "superfed-mm(start=0)",
            "superfed-lm": "superfed-lm(start=0)",
        },
    ),
    Comparison(DBE_CNN, {"dbe": "dbe"}),
    Comparison(ALONE, {"superfed-mm on twonn": "superfed-mm(start=0)", "superfed-lm on twonn": "superfed-lm(start=0)"}),
    Comparison(PGFED, {"pgfed": "pgfed"}),  # the first round, which is FedAvg's, is one of the warm-up
    # the bases from the first round on; a round has the epochs of the coefficients and those of the bases
    Comparison(FEDBASIS, {"fedbasis": "fedbasis(warm_start=0)"}, epochs=2),
)


def measure(quick: bool, repeats: int) -> dict[str, Any]:
    """Every comparison, one after the other; the median over rounds of the quotient of the same round's times."""
    found: dict[str, Any] = {"ratio_to_fedavg": {}, "repeats": repeats, "seconds": {}, "skipped": {}, "setting": {}}
    for comparison in COMPARISONS:
        setting = merge(comparison.workload.experiment(quick), {"scoring": {"every": NEVER}})
        methods = {"fedavg": "fedavg", **comparison.systems}
        entries = {name: ("pool", _with(setting, method)) for name, method in methods.items()}
        result = contest(entries, repeats)
        found["ratio_to_fedavg"] |= ratios(result, comparison)
        label = comparison.workload.name
        found["seconds"][label] = {name: result.seconds(name) for name in result.answers}
        found["skipped"] |= {f"{label}/{name}": reason for name, reason in result.skipped.items()}
        found["setting"][label] = {"what": comparison.workload.what, "experiment": setting, "methods": methods}
    return found


def ratios(result: Result, comparison: Comparison) -> dict[str, float]:
    """Per epoch that is really done."""
    found = {}
    for name in comparison.systems:
        if name in result.answers and "fedavg" in result.answers:
            pairs = zip(result.seconds(name), result.seconds("fedavg"), strict=True)
            found[name] = round(median(a / b for a, b in pairs) / comparison.epochs, 3)
    return found


def _with(setting: Values, method: str) -> Values:
    return merge(setting, {"method": method})
