"""`motet bench`: every run of a bench file, and the tables that come of them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from motet.config.experiment import Experiment, resolve
from motet.config.nesting import merge
from motet.errors import MotetError, shown
from motet.io.files import write_atomic
from motet.metrics.names import MetricName
from motet.metrics.registry import METRICS
from motet.metrics.statistics import tied
from motet.report.tables.bench import to_csv, to_latex, to_markdown
from motet.report.tables.wording import own_models
from motet.runs.environment import environment, machine_of
from motet.runs.record import Record
from motet.server.assembly import settle
from motet.studies.bench_file import BenchFile
from motet.studies.folder import opened, write_json
from motet.studies.job import Job
from motet.studies.protocol import choices_in_common
from motet.studies.schedule import Workflow, work_off
from motet.studies.tune import LookOn

FORMAT = 1
BEST, SECOND = 1, 2


def run_bench(bench: BenchFile, folder: Path, jobs: int, look_on: LookOn, quick: bool = False) -> dict[str, Any]:
    """Compute what is missing; after each run the folder gets results.json and table.md, table.tex and table.csv.

    Cases may come and go between two calls: each run says itself which experiment it is.
    """
    study = _Study(bench, folder, quick)
    asked = {"study": "bench", "format": FORMAT, "quick": quick, "bench": {"name": bench.name}}
    runs = [job for each in study.runs.values() for job in each]
    with opened(folder, asked):
        with look_on(sum(job.rounds for job in runs)) as progress:
            work_off({job.label: study.line(job) for job in runs}, jobs, progress)
        result = study.write()
    if not study.ended:
        raise MotetError(f"no run of bench {bench.name!r} could be computed: {next(iter(study.failures.values()))}")
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


# ------------------------------------------------------------ what came out


@dataclass(frozen=True)
class _Ended:
    """What a bench wants to know of a run."""

    folder: str
    commit: str
    seconds: float
    values: Mapping[str, Any]
    reported: Mapping[str, Any]  # which models these figures are of

    @classmethod
    def of(cls, record: Record, figures: Sequence[str]) -> "_Ended":
        """Of its record."""
        values = {figure: value_of(record, figure) for figure in figures}
        commit = str(record.environment.git_commit)
        summary = record.summary
        return cls(record.folder.name, commit, round(summary.seconds, 1), values, summary.reported.model_dump())


class _Study:
    """A bench that is being computed."""

    def __init__(self, bench: BenchFile, folder: Path, quick: bool):
        self.bench, self.folder, self.quick = bench, folder, quick
        self.experiments = bench.experiments(quick)
        seeds = bench.seeds[:1] if quick else bench.seeds
        self.runs = {name: _jobs(name, each, seeds, folder) for name, each in self.experiments.items()}
        self.ended: dict[str, _Ended] = {}
        self.failures: dict[str, str] = {}

    def line(self, job: Job) -> Workflow[None]:
        """One run, and the tables with it."""
        failures = yield [job]
        if failures:
            self.failures |= failures
        else:
            self.ended[job.label] = _Ended.of(Record(job.folder), self.bench.figures)
        self.write()

    def write(self) -> dict[str, Any]:
        """Everything that ended so far."""
        result = self.result()
        write_json(self.folder / "results.json", result)
        for name, write in (("table.md", to_markdown), ("table.tex", to_latex), ("table.csv", to_csv)):
            write_atomic(self.folder / name, write(result).encode())
        return result

    def result(self) -> dict[str, Any]:
        """results.json."""
        cases = {name: self._case(name) for name in self.runs}
        for figure in self.bench.figures:
            _rank(cases, figure)
        firsts = [jobs[0].experiment for jobs in self.runs.values()]
        return {
            "format": FORMAT,
            "bench": self.bench.name,
            "claim": self.bench.claim,
            "quick": self.quick,
            "figures": list(self.bench.figures),
            "seeds": sorted({job.experiment.seed for jobs in self.runs.values() for job in jobs}),
            "commit": ", ".join(sorted({ran.commit for ran in self.ended.values()})),
            "machine": machine_of(environment()),
            "setting": self.bench.setting,
            "cases": cases,
            "paper": [paper.model_dump() for paper in self.bench.paper],
            "notes": [*self._notes(), *choices_in_common(firsts)],
        }

    def _case(self, name: str) -> dict[str, Any]:
        experiment, labels = self.experiments[name], [job.label for job in self.runs[name]]
        ended = [self.ended[label] for label in labels if label in self.ended]
        figures = self.bench.figures
        return {
            "method": experiment.method,
            "data": _group(experiment),
            "runs": [f"runs/{ran.folder}" for ran in ended],
            "failures": {label: self.failures[label] for label in labels if label in self.failures},
            "figures": {figure: _over_seeds([ran.values[figure] for ran in ended]) for figure in figures},
            "paper": {f: value for f in figures if (value := self.bench.paper_value(name, f)) is not None},
            "seconds": [ran.seconds for ran in ended],
        }

    def _notes(self) -> list[str]:
        said = [
            "Mean ± standard deviation over seeds (n − 1). "
            "Marked: the best and the second best with the same data and rounds, equal ones alike; a mark says nothing "
            "of chance."
        ]
        of = {label: name for name, jobs in self.runs.items() for label in (job.label for job in jobs)}
        said += own_models((of[label], ran.reported) for label, ran in self.ended.items())
        total, done = sum(map(len, self.runs.values())), len(self.ended) + len(self.failures)
        if done < total:
            said.append(f"So far: {done} of {total} runs ended.")
        return said + [f"{label} failed: {why}" for label, why in self.failures.items()]


def value_of(record: Record, name: str) -> Any:
    """`generic.accuracy` of the summary, or a figure by its own name; `curve.NAME`: a column of all rounds;
    `last.member:`: the last round's figures of models whose names begin so."""
    if name.startswith("last."):
        of = name.removeprefix("last.")
        return {n: v for n, v in record.rounds[-1].items() if (f := MetricName.read(n)) and f.model.startswith(of)}
    if name.startswith("curve."):
        return [row.get(name.removeprefix("curve.")) for row in record.rounds]
    summary = record.summary
    if name in summary.figures:
        return summary.figures[name]
    found: Any = summary.model_dump()
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
    """Mark the best and the second best among the cases with the same data and rounds."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for case in cases.values():
        if "mean" in case["figures"][figure]:
            groups.setdefault(case["data"], []).append(case["figures"][figure])
    for of in groups.values():
        ranked = sorted(of, key=lambda each: each["mean"], reverse=_higher_is_better(figure))
        best = [each for each in ranked if tied(each["mean"], ranked[0]["mean"])]
        behind = [each for each in ranked if each not in best]
        second = [each for each in behind if tied(each["mean"], behind[0]["mean"])]
        for rank, several in ((BEST, best), (SECOND, second)) if len(of) > 1 else ():
            for each in several:
                each["rank"] = rank


def _higher_is_better(figure: str) -> bool:
    found = MetricName.read(figure)
    metric = METRICS.get(found.metric) if found else None
    return metric is None or metric.higher_is_better


def _group(experiment: Experiment) -> str:
    """The data that a case is about, and how long it trained: those with the same are compared."""
    data, rounds = experiment.data, experiment.rounds.count
    chosen = data.model_dump(exclude_defaults=True, exclude={"name", "partition"})
    if data.partition == "natural":
        chosen.pop("clients", None)  # the data say how many
    words = [data.name, data.partition, *(f"{name} {shown(value)}" for name, value in chosen.items())]
    return ", ".join([*words, f"{rounds} round{'s' * (rounds != 1)}"])
