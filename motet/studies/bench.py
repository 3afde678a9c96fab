"""`motet bench`: every run of a bench file, and the tables that come of them."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from motet.errors import MotetError
from motet.files import write_atomic
from motet.report.bench_tables import to_csv, to_latex, to_markdown
from motet.runs.assembly import settle
from motet.runs.environment import environment
from motet.runs.experiment import Experiment, merge, resolve
from motet.runs.record import Record
from motet.scoring.figures import Figure
from motet.scoring.measures import MEASURES
from motet.studies.bench_file import Bench
from motet.studies.folder import opened, write_json
from motet.studies.job import Job
from motet.studies.protocol import choices_in_common
from motet.studies.schedule import Line, work_off
from motet.studies.tune import LookOn

FORMAT = 1
BEST, SECOND = 1, 2


def run_bench(bench: Bench, folder: Path, jobs: int, look_on: LookOn, quick: bool = False) -> dict[str, Any]:
    """Compute what is missing; the folder gets results.json and the tables table.md, table.tex and table.csv."""
    experiments = bench.experiments(quick)
    seeds = bench.seeds[:1] if quick else bench.seeds
    runs = {name: _jobs(name, each, seeds, folder) for name, each in experiments.items()}
    asked = {"study": "bench", "format": FORMAT, "quick": quick, "bench": bench.model_dump(exclude={"paper", "claim"})}
    total = sum(job.rounds for jobs in runs.values() for job in jobs)
    with opened(folder, asked):
        with look_on(total) as progress:
            lines = {job.label: _run(job) for each in runs.values() for job in each}
            failures = work_off(lines, jobs, progress)
        result = _collected(bench, experiments, runs, {k: why for k, why in failures.items() if why}, quick)
        write_json(folder / "results.json", result)
        for name, write in (("table.md", to_markdown), ("table.tex", to_latex), ("table.csv", to_csv)):
            write_atomic(folder / name, write(result).encode())
    if not any(case["runs"] for case in result["cases"].values()):
        raise MotetError(f"no run of bench {bench.name!r} could be computed: {next(iter(failures.values()))}")
    return result


def _jobs(name: str, experiment: Experiment, seeds: Sequence[int], folder: Path) -> list[Job]:
    safe = re.sub(r"[^A-Za-z0-9.+=_,-]+", "-", name).strip("-.")[:100]
    return [
        Job(
            f"{name}, seed {seed}",
            folder / "runs" / f"{safe}-seed{seed}",
            settle(resolve(merge(experiment.model_dump(), {"seed": seed}))),
        )
        for seed in seeds
    ]


def _run(job: Job) -> Line[str | None]:
    failures = yield [job]
    return next(iter(failures.values()), None)


# ------------------------------------------------------------ what came out


def _collected(
    bench: Bench,
    experiments: Mapping[str, Experiment],
    runs: Mapping[str, Sequence[Job]],
    failures: Mapping[str, str],
    quick: bool,
) -> dict[str, Any]:
    """results.json."""
    here, commits = environment(), set()
    cases: dict[str, dict[str, Any]] = {}
    for name, jobs in runs.items():
        records = [Record(job.folder) for job in jobs if job.label not in failures]
        commits |= {str(record.environment.get("git_commit")) for record in records}
        cases[name] = {
            "method": experiments[name].method,
            "data": _group(experiments[name]),
            "runs": [f"runs/{record.folder.name}" for record in records],
            "failures": {job.label: failures[job.label] for job in jobs if job.label in failures},
            "figures": {figure: _over_seeds([value_of(r, figure) for r in records]) for figure in bench.figures},
            "paper": {f: value for f in bench.figures if (value := bench.paper_value(name, f)) is not None},
            "seconds": [round(record.summary["seconds"], 1) for record in records],
        }
    for figure in bench.figures:
        _rank(cases, figure)
    return {
        "format": FORMAT,
        "bench": bench.name,
        "claim": bench.claim,
        "quick": quick,
        "figures": list(bench.figures),
        "seeds": sorted({job.experiment.seed for jobs in runs.values() for job in jobs}),
        "commit": ", ".join(sorted(commits)),
        "machine": {name: here[name] for name in ("platform", "cpu", "cpu_count", "cpu_instructions", "torch")},
        "setting": bench.setting,
        "cases": cases,
        "paper": [paper.model_dump() for paper in bench.paper],
        "notes": [*_notes(cases), *choices_in_common([jobs[0].experiment for jobs in runs.values()])],
    }


def value_of(record: Record, name: str) -> Any:
    """`generic.accuracy` of the summary, or a figure by its own name; `curve.NAME`: a column of all rounds;
    `last.member:`: the last round's figures of models whose names begin so."""
    if name.startswith("last."):
        of = name.removeprefix("last.")
        return {n: v for n, v in record.rounds[-1].items() if (f := Figure.read(n)) and f.model.startswith(of)}
    if name.startswith("curve."):
        return [row.get(name.removeprefix("curve.")) for row in record.rounds]
    summary = record.summary
    if name in summary["figures"]:
        return summary["figures"][name]
    found: Any = summary
    for word in name.split("."):
        if not isinstance(found, Mapping) or word not in found:
            raise MotetError(
                f"{record.folder / 'summary.json'} has no figure {name!r}; accepted: such as generic.accuracy, "
                f"personal.split.personal_models, a name of its `figures`, curve.NAME or last.NAME"
            )
        found = found[word]
    return found


def _over_seeds(values: Sequence[Any]) -> dict[str, Any]:
    """Mean and standard deviation (n − 1) of numbers; anything else as it is, by seed."""
    found: dict[str, Any] = {"per_seed": list(values)}
    if values and all(isinstance(value, int | float) for value in values):
        found |= {"mean": fmean(values), "std": stdev(values) if len(values) > 1 else None}
    return found


def _rank(cases: Mapping[str, dict[str, Any]], figure: str) -> None:
    """Mark the best and the second best among the cases with the same data."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for case in cases.values():
        if "mean" in case["figures"][figure]:
            groups.setdefault(case["data"], []).append(case["figures"][figure])
    for of in groups.values():
        values = sorted({each["mean"] for each in of}, reverse=_higher_is_better(figure))
        for each in of:
            if len(of) > 1 and each["mean"] in values[:2]:
                each["rank"] = BEST if each["mean"] == values[0] else SECOND


def _higher_is_better(figure: str) -> bool:
    found = Figure.read(figure)
    measure = MEASURES.get(found.measure) if found else None
    return measure is None or measure.higher_is_better


def _group(experiment: Experiment) -> str:
    """The data that a case is about: those with the same are compared."""
    data = experiment.data
    subset = f", subset {data.subset:g}" if data.subset < 1 else ""
    return f"{data.name}, {data.partition}, {data.clients} clients{subset}"


def _notes(cases: Mapping[str, Mapping[str, Any]]) -> list[str]:
    said = ["Mean ± standard deviation over seeds (n − 1). Marked: the best and the second best on the same data."]
    for case in cases.values():
        said += [f"{label} failed: {why}" for label, why in case["failures"].items()]
    return said
