"""Learning results on real data, one study per claim of the papers (benchmarks/studies.py says which).

    python benchmarks/study.py list
    python benchmarks/study.py run drift dbe-ablation --jobs 2    # start or continue; finished runs are skipped
    python benchmarks/study.py run drift --seeds 0 --cases fedavg scaffold

The result of a study goes to benchmarks/results/NAME.json once every run of it is there.
"""

import argparse
import json
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from studies import STUDIES, Study

from motet.errors import MotetError
from motet.runs.environment import environment
from motet.runs.experiment import merge, resolve
from motet.runs.record import Record
from motet.runs.run import resume, run
from motet.scoring import Figure

HERE = Path(__file__).parent
INLINE = {"engine": {"name": "inline"}}  # runs are computed side by side, a core each


def folder_of(study: Study, case: str, seed: int, out: Path) -> Path:
    """Where one run of a study lives."""
    return out / study.name / f"{case}-seed{seed}"


def compute(study: Study, case: str, seed: int, out: Path) -> None:
    """One run: computed, continued, or left alone where it is finished."""
    folder = folder_of(study, case, seed, out)
    if (folder / "experiment.toml").exists():
        resume(folder)
    else:
        run(resolve(merge(study.setting, study.cases[case], INLINE, {"seed": seed})), folder)


def figure(record: Record, name: str) -> Any:
    """`generic.accuracy` of the summary, or `last.member:`: the last round's figures of models whose names begin so."""
    source: Any = record.summary
    if name.startswith("last."):
        of = name.removeprefix("last.")
        return {n: v for n, v in record.rounds[-1].items() if (f := Figure.read(n)) and f.model.startswith(of)}
    if name.startswith("curve."):
        return [row.get(name.removeprefix("curve.")) for row in record.rounds]
    for word in name.split("."):
        source = source[word]
    return source


def collect(study: Study, out: Path) -> dict[str, Any]:
    """All figures of a finished study, with what is needed to get them again."""
    here, cases, commits = environment(), {}, set()
    for case in study.cases:
        records = [Record(folder_of(study, case, seed, out)) for seed in study.seeds]
        commits |= {str(record.environment["git_commit"]) for record in records}
        cases[case] = {"method": records[0].experiment.method}
        for name in study.figures:
            values = [figure(record, name) for record in records]
            cases[case][name] = {"per_seed": _rounded(values)}
            if all(isinstance(value, int | float) for value in values):
                cases[case][name] |= {
                    "mean": _rounded(statistics.fmean(values)),
                    "std": _rounded(statistics.pstdev(values)),
                }
        cases[case]["seconds"] = [round(record.summary["seconds"]) for record in records]
    return {
        "study": study.name,
        "claim": study.claim,
        "command": f"python benchmarks/study.py run {study.name}",
        "commit": ", ".join(sorted(commits)),
        "machine": {name: here[name] for name in ("platform", "cpu", "cpu_count", "cpu_instructions", "torch")},
        "setting": study.setting,
        "seeds": list(study.seeds),
        "paper": study.paper,
        "cases": cases,
    }


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, list):
        return [_rounded(v) for v in value]
    if isinstance(value, dict):
        return {k: _rounded(v) for k, v in value.items()}
    return value


def run_all(study: Study, cases: list[str], seeds: list[int], out: Path, jobs: int) -> None:
    """Every run in a process of its own, so many at a time."""

    def work(job: tuple[int, str]) -> None:
        seed, case = job
        command = [
            sys.executable,
            __file__,
            "one",
            study.name,
            "--cases",
            case,
            "--seeds",
            str(seed),
            "--out",
            str(out),
        ]
        done = subprocess.run(command)
        if done.returncode:
            raise MotetError(f"{study.name}/{case} with seed {seed} failed; its message is above")
        headline = figure(Record(folder_of(study, case, seed, out)), study.figures[0])
        print(f"{study.name:18} {case:28} seed {seed}  {study.figures[0]} {headline}", flush=True)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(work, [(seed, case) for seed in seeds for case in cases]))


def main() -> None:
    """Parse, run, collect."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["list", "run", "one", "collect"])
    parser.add_argument("studies", nargs="*", help="names of benchmarks/studies.py")
    parser.add_argument("--out", type=Path, default=Path("runs") / "studies", help="folder of the runs")
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time")
    parser.add_argument("--cases", nargs="*", help="these cases alone (no result is written)")
    parser.add_argument("--seeds", nargs="*", type=int, help="these seeds alone (no result is written)")
    options = parser.parse_args()
    if options.action == "list":
        for study in STUDIES.values():
            print(f"{study.name:18} {len(study.cases) * len(study.seeds):3} runs  {study.claim}")
    for name in options.studies:
        if name not in STUDIES:
            raise MotetError(f"unknown study {name!r}; accepted: {', '.join(STUDIES)}")
        study = STUDIES[name]
        cases, seeds = options.cases or list(study.cases), options.seeds or list(study.seeds)
        if options.action == "one":
            compute(study, cases[0], seeds[0], options.out)
            continue
        if options.action == "run":
            run_all(study, cases, seeds, options.out, options.jobs)
        if options.action == "collect" or not (options.cases or options.seeds):
            text = json.dumps(collect(study, options.out), indent=1, ensure_ascii=False) + "\n"
            (HERE / "results" / f"{name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except MotetError as error:
        sys.exit(f"{error}")
