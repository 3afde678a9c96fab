"""Claims of the papers whose evidence is a picture, as numbers: read from the learned figures of finished runs.

    python benchmarks/learned.py pgfed-samples RUN --record        # Figure 3: does α follow the numbers of samples?
    python benchmarks/learned.py gain RUN --local RUN --record     # Table 3: what each client gains over `local`
    python benchmarks/learned.py fedbasis-domains RUN --record     # Figure 4: is the nearest α of the same domain?
    python benchmarks/learned.py two-heads RUN --record            # FED-ROD, Figure 11: whose data each head serves
    python benchmarks/learned.py plane RUN --record                # SuPerFed, Figure A1: flat between models?

RUN is a folder that a bench left, such as OUT/runs/pgfed-seed0. With --record the numbers go to results/learned.json,
beside those of other runs, with the run's method, commit and setting.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import combinations
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from motet.runs.environment import environment, machine_of
from motet.runs.record import Record

RESULTS = Path(__file__).parent / "results" / "learned.json"
Found = dict[str, float | int | None]


def figure(record: Record, name: str) -> dict[str, Any]:
    """Return a learned figure of a run; a message and exit code 2 where it has none of this name."""
    found = {each.name: asdict(each) for each in record.figures_learned}
    if name not in found:
        sys.exit(f"{record.folder} has no learned figure {name!r}; it has: {', '.join(found) or 'none'}")
    return found[name]


def values(of: dict[str, Any]) -> list[Any]:
    """Return the values of each series."""
    return [each["values"] for each in of["series"]]


# -------- PGFed


def pgfed_samples(record: Record, local: Record | None) -> Found:
    """Rank correlation of n with the change of what others take from a client, and of what it takes (Figure 3)."""
    of = figure(record, "pgfed-alpha-samples")
    n = [float(tick) for tick in of["x"]["ticks"]]
    given, taken = values(of)
    return {"clients": len(n), "given_with_n": rank_correlation(n, given), "taken_with_n": rank_correlation(n, taken)}


def gain(record: Record, local: Record | None) -> Found:
    """What each client's accuracy gains over its own in the run of `local`, in points (Table 3)."""
    if local is None:
        sys.exit("gain needs --local RUN, a run of the method local on the same clients")
    ours, theirs = own_accuracy(record), own_accuracy(local)
    if ours.keys() != theirs.keys():
        sys.exit(f"{record.folder} and {local.folder} have not the same clients")
    gains = [100 * (ours[client] - theirs[client]) for client in ours]
    return {
        "clients": len(gains),
        "mean": fmean(gains),
        "std": stdev(gains),
        "better": sum(each > 0 for each in gains),
        "worse": sum(each < 0 for each in gains),
    }


def own_accuracy(record: Record) -> dict[Any, float]:
    """Return each training client's own model's accuracy on its own test data in the reported round."""
    rows = record.clients_of(record.summary.reported.round)
    name = "personal.split.accuracy"
    return {row["client"]: float(row[name]) for row in rows if not row["new"] and row.get(name) is not None}


# -------- FedBasis


def fedbasis_domains(record: Record, local: Record | None) -> Found:
    """How many clients have the nearest α at a client of their own domain, and how many would by chance (Figure 4)."""
    of = figure(record, "fedbasis-coefficients")
    rows = [[0.0 if each is None else each for each in row] for row in values(of)[0]]
    clients = json.loads((record.folder / "clients.json").read_text("utf-8"))["clients"]
    domain = {each["name"]: each["domain"] for each in clients}
    domains = [domain[str(name)] for name in of["y"]["ticks"]]
    near = [
        min((j for j in range(len(rows)) if j != i), key=lambda j, i=i: square(rows[i], rows[j]))  # type: ignore[misc]
        for i in range(len(rows))
    ]
    others = [sum(domains[j] == domains[i] for j in range(len(rows)) if j != i) for i in range(len(rows))]
    within = [square(rows[i], rows[j]) for i, j in combinations(range(len(rows)), 2) if domains[i] == domains[j]]
    across = [square(rows[i], rows[j]) for i, j in combinations(range(len(rows)), 2) if domains[i] != domains[j]]
    return {
        "clients": len(rows),
        "domains": len(set(domains)),
        "nearest_of_own_domain": fmean(domains[i] == domains[j] for i, j in enumerate(near)),
        "by_chance": fmean(each / (len(rows) - 1) for each in others),
        "within": fmean(within) if within else None,
        "across": fmean(across) if across else None,
    }


def square(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the squared distance of two rows of α."""
    return sum((x - y) ** 2 for x, y in zip(a, b, strict=True))


# -------- FED-ROD


def two_heads(record: Record, local: Record | None) -> Found:
    """The mean accuracy of each head on clients' own data and on that of others (Figure 11)."""
    found: Found = {}
    for head in ("generic", "personal"):
        matrix = values(figure(record, f"cross-client-{head}"))[0]
        own = [matrix[i][i] for i in range(len(matrix)) if matrix[i][i] is not None]
        others = [x for i, row in enumerate(matrix) for j, x in enumerate(row) if i != j and x is not None]
        found |= {"clients": len(matrix), f"{head}_own": fmean(own), f"{head}_others": fmean(others)}
    return found


# -------- SuPerFed


def plane(record: Record, local: Record | None) -> Found:
    """Loss at the three models, and its mean over the triangle between them (Figure A1)."""
    names = {each.name for each in record.figures_learned}
    of = figure(record, "plane" if "plane" in names else "plane-trained")
    s, t = ([float(tick) for tick in of[axis]["ticks"]] for axis in ("x", "y"))
    loss = {(a, b): x for b, row in zip(t, values(of)[0], strict=True) for a, x in zip(s, row, strict=True)}
    between = [x for (a, b), x in loss.items() if a >= 0 and b >= 0 and a + b <= 1]
    corners = [loss[0.0, 0.0], loss[1.0, 0.0], loss[0.0, 1.0]]
    return {
        "generic": corners[0],
        "first": corners[1],
        "second": corners[2],
        "triangle": fmean(between),
        "highest_in_triangle": max(between),
        "whole_plane": fmean(loss.values()),
    }


# -------- The command


def rank_correlation(x: Sequence[float], y: Sequence[float]) -> float:
    """Return Spearman's rank correlation; equal values share their ranks."""
    from scipy.stats import spearmanr

    return float(spearmanr(x, y).statistic)


KINDS: dict[str, Callable[[Record, Record | None], Found]] = {
    "pgfed-samples": pgfed_samples,
    "gain": gain,
    "fedbasis-domains": fedbasis_domains,
    "two-heads": two_heads,
    "plane": plane,
}


def main() -> None:
    """Read a run, print its numbers, and keep them if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("run", type=Path)
    parser.add_argument("--local", type=Path, help="for gain: the run of `local`")
    parser.add_argument("--record", action="store_true", help=f"keep it in {RESULTS.name}")
    options = parser.parse_args()
    record = Record(options.run)
    record.require_finished()
    experiment = record.experiment
    found = {
        "method": experiment.method,
        "data": f"{experiment.data.name}, {experiment.data.partition}",
        "rounds": experiment.rounds.last,
        "run": options.run.name,
        "commit": record.environment.git_commit,
        **KINDS[options.kind](record, None if options.local is None else Record(options.local)),
    }
    print(json.dumps(found, indent=2))
    if options.record:
        before = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
        kept = before.get("cases", {}) | {f"{options.kind}, {options.run.name}": found}
        whole = {
            "study": "learned",
            "claim": "claims of the papers whose evidence is a picture, as numbers",
            "command": "python benchmarks/learned.py KIND RUN --record",
            "machine": machine_of(environment()),
            "cases": dict(sorted(kept.items())),
        }
        RESULTS.write_text(json.dumps(whole, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
