"""`motet bench`: run all experiments of a bench file, and write their figures into results.json."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Final, Literal

from pydantic import JsonValue, ValidationError

from motet.config.experiment import Experiment
from motet.config.identity import fingerprint
from motet.errors import MotetError, shown
from motet.io.json_models import FileModel, damaged, loads, to_json
from motet.metrics.names import MetricName
from motet.metrics.registry import METRICS
from motet.metrics.statistics import tied
from motet.metrics.wording import own_models
from motet.runs.environment import environment, machine_of
from motet.runs.record import Record
from motet.runs.trust import imports_of
from motet.server.assembly import settle
from motet.studies.bench_file import BenchFile, Paper
from motet.studies.folder import AskedFile, Name, Number, RunFolder, Sentence, opened, write_file
from motet.studies.job import Job
from motet.studies.protocol import choices_in_common
from motet.studies.schedule import Workflow, sharing_data, work_off
from motet.studies.tune import LookOn

FILE = "results.json"
FORMAT: Final = 1
BEST, SECOND = 1, 2


class FigureOverSeeds(FileModel):
    """A figure by seed; for numbers with mean and standard deviation (n − 1); `rank` 1 is the best, 2 the second."""

    per_seed: tuple[JsonValue, ...]
    mean: Number | None = None
    std: Number | None = None
    rank: Literal[1, 2] | None = None


class EndedRun(FileModel):
    """A run behind the figures: its seed, the fingerprint of its experiment, and which models were reported."""

    seed: int
    experiment: Name
    commit: Name
    reported: dict[str, JsonValue]


class CaseResult(FileModel):
    """The result of a case: its method, the data and rounds it shares with other cases, its runs and its figures.

    `ended` has an entry for each of `runs`; it is empty in records of older versions.
    """

    method: Name
    data: Name
    runs: tuple[RunFolder, ...]
    failures: dict[Name, Sentence]
    figures: dict[Name, FigureOverSeeds]
    paper: dict[Name, Number]
    seconds: tuple[Number, ...]
    ended: tuple[EndedRun, ...] = ()


class PaperResult(FileModel):
    """Values of a paper, in percent; without figures they stand below the table."""

    table: Name
    figures: tuple[Name, ...]
    values: dict[Name, Number | tuple[Number, ...]]

    @classmethod
    def of(cls, paper: Paper) -> "PaperResult":
        """Return what a bench file says of a paper."""
        values = {case: tuple(v) if isinstance(v, list) else v for case, v in paper.values.items()}
        return cls(table=paper.table, figures=paper.figures, values=values)


class BenchResults(FileModel):
    """results.json: the figures of all cases."""

    format: Literal[1]
    bench: Name
    claim: Sentence
    quick: bool
    figures: tuple[Name, ...]
    seeds: tuple[int, ...]
    commit: Sentence
    machine: dict[str, JsonValue]
    setting: dict[str, JsonValue]
    cases: dict[Name, CaseResult]
    paper: tuple[PaperResult, ...]
    notes: tuple[Sentence, ...]

    def is_part_of(self, later: "BenchResults") -> bool:
        """Return whether later results have every run of these, so that nothing is lost if they take their place."""
        return all(
            name in later.cases and len(case.ended) == len(case.runs) and set(case.runs) <= set(later.cases[name].runs)
            for name, case in self.cases.items()
        )


Draw = Callable[[BenchResults, Path], None]
"""Writes the tables of results into the study's folder."""


def run_bench(
    bench: BenchFile,
    folder: Path,
    jobs: int,
    look_on: LookOn,
    quick: bool = False,
    draw: Draw = lambda *_: None,
    before: BenchResults | None = None,
) -> BenchResults:
    """Run the experiments that have no results yet, and return all results.

    After each run results.json is written and `draw` is called. Cases may be added or removed between two calls: each
    run's folder says which experiment it holds. Runs that `before` has are taken from it: a bench of many hours can be
    recorded in parts, on several machines one after the other.
    """
    study = _Study(bench, folder, quick, draw)
    study.take_over(before)
    asked = AskedFile(study="bench", format=FORMAT, request={"quick": quick, "bench": {"name": bench.name}})
    runs = [job for each in study.runs.values() for job in each if job.label not in study.ended]
    with opened(folder, asked), sharing_data(jobs):
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
            settle(experiment.with_({"seed": seed})),
        )
        for seed in seeds
    ]


# ------------------------------------------------------------ results


@dataclass(frozen=True)
class _Ended:
    """The values of a finished run that results.json needs."""

    folder: str
    commit: str
    seconds: float
    values: Mapping[str, Any]  # null where a run has no such figure
    reported: dict[str, Any]  # which models these figures belong to

    @classmethod
    def of(cls, record: Record, figures: Sequence[str]) -> "_Ended":
        """Return these values from a record."""
        values = {figure: _value_or_null(record, figure) for figure in figures}
        commit = str(record.environment.git_commit)
        summary = record.summary
        return cls(record.folder.name, commit, round(summary.seconds, 1), values, summary.reported.model_dump())


class _Study:
    """A bench while its runs are computed."""

    def __init__(self, bench: BenchFile, folder: Path, quick: bool, draw: Draw):
        self.bench, self.folder, self.quick, self.draw = bench, folder, quick, draw
        self.experiments = bench.experiments(quick)
        seeds = bench.seeds[:1] if quick else bench.seeds
        self.runs = {name: _jobs(name, each, seeds, folder) for name, each in self.experiments.items()}
        self.ended: dict[str, _Ended] = {}
        self.failures: dict[str, str] = {}

    def take_over(self, before: BenchResults | None) -> None:
        """Take runs of the same experiments from earlier results, unless they ran code of the user's, which may differ
        now."""
        if before is None or (before.bench, before.quick) != (self.bench.name, self.quick):
            return
        for name, jobs in self.runs.items():
            case = before.cases.get(name)
            if case is None or not set(self.bench.figures) <= case.figures.keys():
                continue
            known = {(run.seed, run.experiment): place for place, run in enumerate(case.ended)}
            for job in jobs:
                place = known.get((job.experiment.seed, fingerprint(job.experiment)))
                if place is not None and not imports_of(job.experiment):
                    self.ended[job.label] = _Ended(
                        Path(case.runs[place]).name,
                        case.ended[place].commit,
                        case.seconds[place],
                        {figure: case.figures[figure].per_seed[place] for figure in self.bench.figures},
                        dict(case.ended[place].reported),
                    )

    def line(self, job: Job) -> Workflow[None]:
        """Return the workflow of one run, after which the results are written."""
        failures = yield [job]
        if failures:
            self.failures |= failures
        else:
            self.ended[job.label] = _Ended.of(Record(job.folder), self.bench.figures)
        self.write()

    def write(self) -> BenchResults:
        """Write the results of all runs that ended so far, and return them."""
        try:
            result = self.result()
        except ValidationError as error:  # numbers that no run writes, in a record that somebody changed
            raise damaged(error, f"a record in {self.folder / 'runs'}") from None
        write_file(self.folder / FILE, result)
        self.draw(result, self.folder)
        return result

    def result(self) -> BenchResults:
        """Return what results.json holds."""
        figures = {name: self._figures(name) for name in self.runs}
        groups = {name: _group(experiment) for name, experiment in self.experiments.items()}
        for figure in self.bench.figures:
            ranks = _ranks({name: found[figure].mean for name, found in figures.items()}, groups, figure)
            for name, rank in ranks.items():
                figures[name][figure] = figures[name][figure].model_copy(update={"rank": rank})
        firsts = [jobs[0].experiment for jobs in self.runs.values()]
        return BenchResults(
            format=FORMAT,
            bench=self.bench.name,
            claim=self.bench.claim,
            quick=self.quick,
            figures=self.bench.figures,
            seeds=tuple(sorted({job.experiment.seed for jobs in self.runs.values() for job in jobs})),
            commit=", ".join(sorted({ran.commit for ran in self.ended.values()})),
            machine=machine_of(environment()),
            setting=loads(to_json(self.bench.setting).encode()),
            cases={name: self._case(name, groups[name], figures[name]) for name in self.runs},
            paper=tuple(map(PaperResult.of, self.bench.paper)),
            notes=(*self._notes(), *choices_in_common(firsts)),
        )

    def _figures(self, name: str) -> dict[str, FigureOverSeeds]:
        ended = self._ended(name)
        return {figure: _over_seeds([ran.values[figure] for ran in ended]) for figure in self.bench.figures}

    def _ended_jobs(self, name: str) -> list[Job]:
        return [job for job in self.runs[name] if job.label in self.ended]

    def _ended(self, name: str) -> list[_Ended]:
        return [self.ended[job.label] for job in self._ended_jobs(name)]

    def _case(self, name: str, group: str, figures: dict[str, FigureOverSeeds]) -> CaseResult:
        labels, ended = [job.label for job in self.runs[name]], self._ended(name)
        of_paper = {figure: self.bench.paper_value(name, figure) for figure in self.bench.figures}
        return CaseResult(
            method=self.experiments[name].method,
            data=group,
            runs=tuple(f"runs/{ran.folder}" for ran in ended),
            failures={label: self.failures[label] for label in labels if label in self.failures},
            figures=figures,
            paper={figure: value for figure, value in of_paper.items() if value is not None},
            seconds=tuple(ran.seconds for ran in ended),
            ended=tuple(
                EndedRun(
                    seed=job.experiment.seed,
                    experiment=fingerprint(job.experiment),
                    commit=self.ended[job.label].commit,
                    reported=self.ended[job.label].reported,
                )
                for job in self._ended_jobs(name)
            ),
        )

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
        for figure in self.bench.figures if self.ended else ():
            if all(ran.values[figure] in (None, {}) for ran in self.ended.values()):
                said.append(f"No run has the figure {figure}.")
        return said + [f"{label} failed: {why}" for label, why in self.failures.items()]


def value_of(record: Record, name: str) -> Any:
    """Return a value of a record: `generic.accuracy` of the summary, or a figure by its own name.

    `curve.NAME` is a column of all rounds, `last.member:` the figures of the last round, and those that are measured
    once at the end, whose names begin so.
    """
    if name.startswith("last."):
        of, at_the_end = name.removeprefix("last."), {**record.summary.figures, **record.rounds[-1]}
        return {n: v for n, v in at_the_end.items() if MetricName.read(n) and n.startswith(of)}
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


def _value_or_null(record: Record, name: str) -> Any:
    """Return a value of a record; None where this run has no such figure, as not all methods and data have all."""
    try:
        return value_of(record, name)
    except MotetError:
        return None


def _over_seeds(values: Sequence[Any]) -> FigureOverSeeds:
    """Return values by seed, and of numbers the mean and the standard deviation (n − 1)."""
    if not values or not all(isinstance(value, int | float) for value in values):
        return FigureOverSeeds(per_seed=tuple(values))
    return FigureOverSeeds(per_seed=tuple(values), mean=fmean(values), std=stdev(values) if len(values) > 1 else None)


def _ranks(means: Mapping[str, float | None], groups: Mapping[str, str], figure: str) -> dict[str, int]:
    """Return which cases are the best and the second best among those of the same group."""
    ranks: dict[str, int] = {}
    for group in set(groups.values()):
        among = {name: mean for name, mean in means.items() if groups[name] == group and mean is not None}
        left = sorted(among.values(), reverse=_higher_is_better(figure))
        for rank in (BEST, SECOND) if len(among) > 1 else ():
            if left:
                ranks |= {name: rank for name, mean in among.items() if mean in left and tied(mean, left[0])}
                left = [mean for mean in left if not tied(mean, left[0])]
    return ranks


def _higher_is_better(figure: str) -> bool:
    found = MetricName.read(figure)
    metric = METRICS.get(found.metric) if found else None
    return metric is None or metric.higher_is_better


def _group(experiment: Experiment) -> str:
    """Return the data and rounds of a case in words: cases with the same words are compared with each other."""
    data, rounds = experiment.data, experiment.rounds.last
    chosen = data.model_dump(exclude_defaults=True, exclude={"name", "partition"})
    if data.partition == "natural":
        chosen.pop("clients", None)  # the data say how many
    words = [data.name, data.partition, *(f"{name} {shown(value)}" for name, value in chosen.items())]
    return ", ".join([*words, f"{rounds} round{'s' * (rounds != 1)}"])
