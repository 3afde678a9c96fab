"""The survey of a comparison's clients: what each has, alone and together, who gains, who loses, who is too small to
tell."""

from math import sqrt
from typing import Literal

import numpy as np

from motet.metrics.classification import AUROC
from motet.metrics.metric import ACCURACY
from motet.metrics.statistics import Table, auroc_error, normal_interval, unpaired_interval
from motet.runs.clients_file import ClientInfo
from motet.runs.local_baseline import LOCAL
from motet.studies.comparison_file import ClientResult
from motet.studies.recommend import named
from motet.studies.results import Results

MANY = 20
"""Of so many clients, chance alone makes one gain or lose."""
Verdict = Literal["gains", "loses", "too small to tell"]


def survey(results: Results, recommended: str) -> tuple[ClientResult, ...]:
    """Return every client that is compared, with its model of the recommended method beside what it has otherwise.

    Differences are to training alone; where that is what is recommended, to FedAvg's one model.
    """
    values = {name: _by_client(ran.personal, results) for name, ran in results.methods.items()}
    fedavg = results.methods.get("fedavg")
    one = {} if fedavg is None or fedavg.generic is None else _by_client(fedavg.generic, results)
    alone, own = values.get("local", {}), values[recommended]
    other = one if recommended == LOCAL else alone
    rare = rare_class(results)
    found = []
    for client in results.clients:
        info, difference, interval = results.clients_info.by_id[client], None, None
        if client in other:
            difference = results.metric.direction * (own[client] - other[client])
            interval = _interval(own[client], other[client], info, results)
        found.append(
            ClientResult(
                id=client,
                name=results.name(client),
                personal={name: of[client] for name, of in values.items()},
                train=info.train,
                test=info.test,
                rare=None if rare is None or not info.counts else info.counts[rare] / max(1, sum(info.counts)),
                alone=alone.get(client),
                one_model=one.get(client),
                own=own[client],
                difference=difference,
                interval=interval,
                verdict=None if difference is None else _verdict(interval),
            )
        )
    return tuple(found)


def rare_class(results: Results) -> int | None:
    """Return the class of which all clients together have the fewest rows; None where class counts are not known.

    Numbers as targets have no classes.
    """
    counts = [info.counts for info in results.clients_info.clients if not info.new]
    if not counts or not all(counts) or len(counts[0]) < 2:  # one: a number is predicted, and no class
        return None
    return int(np.array(counts).sum(0).argmin())


def said_of_clients(clients: tuple[ClientResult, ...], recommended: str) -> list[str]:
    """Return a sentence about who gains and who loses by the recommended method, by more than chance."""
    than = "FedAvg's one model" if recommended == LOCAL else "training alone"
    verdicts = [client for client in clients if client.verdict is not None]
    if not verdicts:
        return []
    gains, loses = ([c.name for c in verdicts if c.verdict == word] for word in ("gains", "loses"))
    small = len(verdicts) - len(gains) - len(loses)
    if small == len(verdicts):
        return [f"None of {small} clients gains or loses against {than} by more than chance of its test rows."]
    words = " and ".join(f"{len(names)} {verb}{_names(names)}" for names, verb in ((gains, "gain"), (loses, "lose")))
    by_chance = " (one in twenty does so without any difference)" if len(verdicts) >= MANY else ""
    return [
        f"Against {than}, by more than chance of their own test rows, of {len(verdicts)} clients {words}{by_chance}; "
        f"{small} {'has' if small == 1 else 'have'} too few test rows to tell."
    ]


def _names(names: list[str]) -> str:
    return f" ({named(names)})" if names else ""


def _by_client(table: Table, results: Results) -> dict[int, float]:
    return dict(zip(results.clients, np.mean(table, 1).tolist(), strict=True))


def _interval(own: float, other: float, info: ClientInfo, results: Results) -> tuple[float, float] | None:
    """Return the 95 % interval of how much better a client's own model is, from its test rows; None if not known.

    The two models are of two runs, whose answers row by row are not recorded. So they count as independent, which makes
    the interval rather too wide. Test rows of several splits count once each.
    """
    rows = (info.test or 0) * results.splits
    rows = min(rows, info.train + (info.val or 0) + (info.test or 0))
    if not rows or results.figure.data != "split":
        return None
    if results.metric is ACCURACY:
        return unpaired_interval(own, other, rows)
    if results.metric is not AUROC or len(info.counts) != 2 or not sum(info.counts):
        return None
    positive = rows * info.counts[1] / sum(info.counts)
    errors = [auroc_error(value, positive, rows - positive) for value in (own, other)]
    there = [error for error in errors if error is not None]
    return normal_interval(own - other, sqrt(sum(error**2 for error in there))) if len(there) == 2 else None


def _verdict(interval: tuple[float, float] | None) -> Verdict:
    if interval is None or interval[0] <= 0 <= interval[1]:
        return "too small to tell"
    return "gains" if interval[0] > 0 else "loses"
