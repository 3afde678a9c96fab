"""Records of finished runs written to disk without training: as large as a test needs, every number made up."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from motet.config.experiment import Experiment, resolve, write
from motet.metrics.names import MetricName
from motet.runs.environment import Environment
from motet.runs.summary import Summary
from motet.server.assembly import settle
from motet.studies.comparison_file import (
    ComparisonFile,
    GenericScore,
    MethodResult,
    RecommendedMethod,
    Score,
    TrialResult,
)

CLASSES = 10
ENVIRONMENT = Environment(
    motet="0",
    git_commit=None,
    python="3.11",
    torch="2",
    numpy="2",
    platform="Linux",
    cpu="unknown",
    cpu_count=2,
    cpu_instructions="AVX2",
    cpu_has_bf16=False,
    threads=1,
)


def made_record(
    folder: Path,
    method: str,
    *,
    seed: int = 0,
    base: float = 0.8,
    clients: int = 6,
    new: int = 2,
    rounds: int = 10,
    scored_every: int = 5,
    names: Sequence[str] = (),
    class_names: Sequence[str] = (),
    generic: bool = True,
    metrics: Sequence[str] = (),
    **choices: Any,
) -> Path:
    """A finished run about which every chart has something to draw; clients' accuracies are about `base`."""
    folder.mkdir(parents=True)
    draw = random.Random(f"{method} {seed}")
    data = {"name": "digits", "clients": clients + new, "new_clients": new / (clients + new)}
    experiment = settle(resolve({"method": "fedavg", "seed": seed, "net": {"name": "mlp"}, "data": data, **choices}))
    experiment = experiment.model_copy(update={"method": method})
    write(experiment, folder / "experiment.toml")
    (folder / "environment.json").write_bytes(ENVIRONMENT.to_json())
    _write(folder / "clients.json", _people(clients, new, names, class_names))
    kind = experiment.headline.data
    scored = [r for r in range(1, rounds + 1) if r % scored_every == 0 or r == rounds]
    rows = [_round(r, rounds, base, kind, r in scored, generic, metrics) for r in range(1, rounds + 1)]
    people = [
        _client(i, r, base - 0.3 * (rounds - r) / rounds, kind, draw, generic) for r in scored for i in range(clients)
    ]
    people += [_newcomer(clients + i, rounds, base, kind, draw) for i in range(new)]
    for name, lines in (("rounds.jsonl", rows), ("clients.jsonl", people)):
        (folder / name).write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    figures = {name: value for name, value in rows[-1].items() if MetricName.read(name)}
    if new:
        figures |= {f"before.{kind}.accuracy.mean": base - 0.1, f"after.{kind}.accuracy.mean": base + 0.05}
    (folder / "summary.json").write_bytes(made_summary(experiment, figures, rounds).to_json())
    return folder


def _people(clients: int, new: int, names: Sequence[str], class_names: Sequence[str]) -> dict[str, Any]:
    draw = random.Random(clients)
    persons = []
    for i in range(clients + new):
        counts = [draw.choice((0, 0, 3, 12, 40)) for _ in range(CLASSES)]
        name = names[i] if i < len(names) else str(i)
        persons.append({"id": i, "name": name, "new": i >= clients, "train": sum(counts) or 1, "val": 0, "test": 9})
        persons[-1] |= {"counts": counts, "domain": None}
    return {"classes": list(class_names or map(str, range(CLASSES))), "common_test": 359, "clients": persons}


def _round(
    r: int, last: int, base: float, kind: str, scored: bool, generic: bool, metrics: Sequence[str]
) -> dict[str, Any]:
    at = base - 0.3 * (last - r) / last
    row: dict[str, Any] = {"round": r, "cohort": [0], "set_aside": {}, "bytes_down": 4e5, "bytes_up": 4e5, "seconds": 1}
    if scored:
        for model, value in (("personal", at), *((("generic", at - 0.05),) if generic else ())):
            row |= {f"{model}.{kind}.accuracy.mean": value, f"{model}.{kind}.accuracy.std": 0.08}
            row |= {f"{model}.{kind}.accuracy.worst_tenth": value - 0.2}
            row |= {f"{model}.{kind}.{metric}.mean": 0.1 for metric in metrics}
        if generic:
            row["generic.common.accuracy.pooled"] = at - 0.04
    return row


def _client(i: int, r: int, at: float, kind: str, draw: random.Random, generic: bool) -> dict[str, Any]:
    own = min(1.0, max(0.0, at + draw.uniform(-0.15, 0.15)))
    row = {"round": r, "client": i, "new": False, "set_aside": None, "n": 50, f"personal.{kind}.accuracy": own}
    if generic:
        row |= {f"generic.{kind}.accuracy": max(0.0, own - draw.uniform(-0.1, 0.2))}
        row[f"personal.{kind}.gain_error"] = 0.03
    return row


def _newcomer(i: int, r: int, base: float, kind: str, draw: random.Random) -> dict[str, Any]:
    before = base - draw.uniform(0, 0.2)
    row = {"round": r, "client": i, "new": True, "set_aside": None, "n": 50}
    return row | {f"before.{kind}.accuracy": before, f"after.{kind}.accuracy": before + draw.uniform(-0.05, 0.2)}


def made_summary(
    experiment: Experiment, figures: dict[str, float], rounds: int = 20, sent: float | None = 4e5, **changes: Any
) -> Summary:
    """A summary with these figures, and nothing more than the format asks for."""
    pair = {"generic_model": None, "personal_models": None}
    statistics = ("std", "minimum", "worst_tenth", "hurt", "hurt_clients", "better_clients", "compared_clients")
    kinds: dict[str, Any] = {"common": {"personal_models": None}, "weighted": pair, "split": pair, "validation": pair}
    values = {
        "method": experiment.method,
        "data": experiment.data.name,
        "partition": experiment.data.partition,
        "protocol": experiment.protocol,
        "seed": experiment.seed,
        "rounds": rounds,
        "reported": {
            "rule": "last",
            "round": rounds,
            "rounds": {"generic": rounds, "personal": rounds},
            "headline": f"personal.{experiment.headline.data}.personal_models",
            "figure": str(experiment.headline),
            "client_weighting": "uniform",
            "personal_model": "unknown",
            "personalizes": True,
        },
        "generic": {"accuracy": figures.get("generic.common.accuracy.pooled"), "derived": False},
        "personal": kinds | dict.fromkeys(statistics) | {"readings": {}},
        "new_clients": {},
        "figures": figures,
        "tells": [],
        "bytes_per_round": {"down": sent, "up": sent},
        "set_aside": 0,
        "diverged": {"personal_models": 0, "new_clients": 0},
        "seconds": 1.5 + experiment.seed,
        "warnings": [],
    }
    return Summary.model_validate(values | changes)


def made_comparison(folder: Path, methods: Sequence[str], seeds: int = 2, apart: float = 0.02, **more: Any) -> Path:
    """A folder as `motet compare` leaves it, of made runs; the first method is recommended."""
    rows = []
    for place, method in enumerate(methods):
        base = 0.9 - apart * place
        runs = [f"runs/{place}-seed{seed}" for seed in range(seeds)]
        for seed, run in enumerate(runs):
            made_record(folder / run, method, seed=seed, base=base, generic=method != "local", **more)
        options = {"lr": 0.05 * (place + 1)}
        generic = GenericScore(mean=base - 0.05, std=0.01, interval=None, common=None)
        rows.append(
            MethodResult(
                method=method,
                options=options,
                expression=method,
                yardstick=False,
                personal=Score(mean=base, std=0.01, interval=(base - 0.01, base + 0.01)),
                generic=None if method == "local" else generic,
                worst_client=base - 0.2,
                hurt=0,
                hurt_clients=(),
                hurt_vs_fedavg=None,
                hurt_vs_fedavg_clients=None,
                bytes_per_round=8e5,
                seconds=2.0,
                new_clients=None,
                runs=tuple(runs),
                climb=None,
                warnings=(),
                trials=tuple(
                    TrialResult(options={"lr": lr}, score=base - lr, rounds=10, failure=None)
                    for lr in (options["lr"], 0.5)
                ),
                difference=None,
                to_recommended=None,
            )
        )
    recommended = RecommendedMethod(
        method=methods[0],
        options=rows[0].options,
        expression=methods[0],
        reason="It is best.",
        certain=False,
        enough_evidence=True,
        may_be_equal=(methods[0],),
    )
    values = ComparisonFile(
        format=1,
        recommended=recommended,
        methods=tuple(rows),
        clients=(),
        left_out={},
        figure="personal.weighted.accuracy.mean",
        notes=("Tuned on validation data.",),
    )
    (folder / "comparison.json").write_bytes(values.to_json())
    return folder


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")
