"""The summary of a run: the figures of the reported round under names that say what they are."""

from collections.abc import Sequence
from typing import Any

from motet.contract import Method
from motet.runs.experiment import Experiment
from motet.runs.record import Row
from motet.scoring.settings import ScoringSettings


def headline_column(scoring: ScoringSettings) -> tuple[str, str]:
    """How the record names the headline: the kind of test data, and the tail of its mean over clients."""
    test = "weighted" if scoring.test == "common" else "split"
    return test, "_by_samples" if scoring.client_weighting == "by_samples" else ""


def summarize(
    experiment: Experiment, method: Method, rounds: Sequence[Row], new_clients: Row, seconds: float
) -> dict[str, Any]:
    """One JSON object; a figure that does not exist for the method is None."""
    scoring = experiment.scoring
    test, tail = headline_column(scoring)
    row = reported(rounds, scoring.report, test, tail)
    trained = [r for r in rounds if r["round"]]

    def pair(kind: str) -> dict[str, Any]:
        return {
            "generic_model": row.get(f"generic_{kind}{tail}"),
            "personal_models": row.get(f"personal_{kind}{tail}"),
        }

    return {
        "method": experiment.method,
        "data": experiment.data.name,
        "partition": experiment.data.partition,
        "protocol": experiment.protocol,
        "seed": experiment.seed,
        "rounds": len(trained),
        "reported": {
            "rule": scoring.report,
            "round": row["round"],
            "headline": f"personal.{test}.personal_models",
            "client_weighting": scoring.client_weighting,
            "pm_source": personal_source(scoring, method),
        },
        "generic": {"accuracy": row.get("generic_accuracy")},
        "personal": {
            "weighted": pair("weighted"),
            "split": pair("split"),
            "validation": pair("validation"),
            "std": row.get("personal_std"),
            "minimum": row.get("personal_minimum"),
            "worst_tenth": row.get("personal_worst_tenth"),
        },
        "new_clients": {
            "before": new_clients.get(f"before_{test}{tail}"),
            "after": new_clients.get(f"after_{test}{tail}"),
        },
        "bytes_per_round": {
            "down": _mean(trained, "bytes_down"),
            "up": _mean(trained, "bytes_up"),
        },
        "set_aside": sum(len(r["set_aside"]) for r in rounds),
        "diverged": {
            "personal_models": row.get("personal_diverged", 0),
            "new_clients": new_clients.get("after_diverged", 0),
        },
        "seconds": round(seconds, 3),
    }


def personal_source(scoring: ScoringSettings, method: Method) -> str:
    """Which personal models were really scored: some methods never serve a client's last trained one."""
    if method.personal_from_global and scoring.pm_source == "last_participation":
        return "global_plus_personal"
    return scoring.pm_source


def reported(rounds: Sequence[Row], rule: str, test: str, tail: str) -> Row:
    """The row of the last scored round, of the best on test data, or of the best on validation data."""
    scored = [r for r in rounds if "generic_accuracy" in r]
    if rule == "last":
        return scored[-1]
    column = f"validation{tail}" if rule == "best_on_validation" else f"{test}{tail}"

    def headline(r: Row) -> float:
        value = r.get(f"personal_{column}")
        value = r.get(f"generic_{column}") if value is None else value
        return float(value) if isinstance(value, int | float) else -1.0

    return max(scored, key=headline)  # the earliest of equals


def _mean(rows: Sequence[Row], name: str) -> float | None:
    values = [v for v in (r[name] for r in rows) if isinstance(v, int | float)]
    return sum(values) / len(values) if values else None
