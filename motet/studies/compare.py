"""`motet compare`: which method, on these data, and how sure we are.

Every method is tuned by the same number of trials on validation data; then each runs over the seeds with what was
chosen for it. Test data are scored in these last runs alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from motet.errors import MotetError
from motet.report.page import write_report
from motet.runs.experiment import Experiment, merge, resolve, write
from motet.studies.budget import Plan, planned, remember, remembered
from motet.studies.chance import Table, accuracy, differences
from motet.studies.contestants import Contestant, Field, enter
from motet.studies.folder import opened, write_json
from motet.studies.job import Job, row_of
from motet.studies.protocol import sentences
from motet.studies.recommend import CONTROL, Candidate, hurt, hurt_sentence, recommend
from motet.studies.results import Ran, Results, read_results
from motet.studies.schedule import Line, Progress, work_off
from motet.studies.space import first_setting, space_of, with_setting
from motet.studies.tune import LookOn, chosen, tune_all, tuning_rounds
from motet.studies.tuning import Tuned, rungs, validating

FORMAT = 1
FILE = "comparison.json"
SHORTLIST = (
    "local",
    "fedavg",
    CONTROL,
    "fedper",
    "ditto",
    "fedrod",
    "pgfed",
    "fedbasis",
    "superfed-mm",
    "fedavg+dbe",
)


@dataclass(frozen=True)
class Asked:
    """What a comparison is asked for."""

    experiment: Experiment
    methods: tuple[str, ...]
    trials: int
    seeds: int
    seconds: float | None = None  # None: as long as it takes

    def as_json(self) -> dict[str, Any]:
        """For the folder."""
        return {
            "study": "compare",
            "format": FORMAT,
            "experiment": self.experiment.model_dump(exclude={"engine", "checkpoint"}),
            "methods": list(self.methods),
            "trials": self.trials,
            "seeds": self.seeds,
            "seconds": self.seconds,
        }


def compare_methods(asked: Asked, folder: Path, jobs: int, look_on: LookOn) -> dict[str, Any]:
    """Tune, run, judge; the folder gets comparison.json, recommended.toml and report.html."""
    field = enter(asked.methods, asked.experiment)
    count = field.contestants[0].experiment.rounds.count
    total = tuning_rounds(field, asked.trials) + len(field.contestants) * asked.seeds * count
    with opened(folder, asked.as_json()):
        with look_on(total) as progress:
            plan = _plan(asked, field, folder, jobs, progress)
            field = _without(field, plan.left_out)
            tuned = tune_all(field, plan.trials, folder / "tuning", jobs, progress)
            field = _without(field, {name: found.failure for name, found in tuned.items() if found.failure})
            finals = _finals(field, tuned, plan.seeds, folder)
            failed = work_off({name: _run(each) for name, each in finals.items()}, jobs, progress)
        field = _without(field, {name: why for name, why in failed.items() if why})
        folders = {each.name: [job.folder for job in finals[each.name]] for each in field.contestants}
        result = _judged(read_results(folders), field, tuned, plan, folder)
        write_json(folder / FILE, result)
        best = next(each for each in field.contestants if each.name == result["recommended"]["method"])
        write(finals[best.name][0].experiment, folder / "recommended.toml")
        result["report"] = str(write_report([folder], folder / "report.html"))
    return result


# ------------------------------------------------------------ the work


def _plan(asked: Asked, field: Field, folder: Path, jobs: int, progress: Progress) -> Plan:
    """As asked for, or what fits into the time: then every method's first trial begins, to see what a round takes."""
    everything = Plan(asked.trials, asked.seeds, {})
    if asked.seconds is None:
        return everything
    if before := remembered(folder):
        return before
    first = {each.name: _first_rounds(each, folder) for each in field.contestants}
    failed = work_off({name: _run([job]) for name, job in first.items()}, jobs, progress)
    left_out = {name: why for name, why in failed.items() if why}
    per_round = {
        name: fmean(float(row_of(job.folder, round)["seconds"]) for round in range(1, job.rounds + 1))  # type: ignore[arg-type]
        for name, job in first.items()
        if name not in left_out
    }
    count = field.contestants[0].experiment.rounds.count
    plan = planned(replace(everything, left_out=left_out), per_round, count, jobs, asked.seconds)
    remember(folder, plan)
    return plan


def _first_rounds(contestant: Contestant, folder: Path) -> Job:
    """The first trial's, up to where trials are compared first: the tuner goes on from there."""
    experiment = validating(contestant.experiment)
    experiment = with_setting(experiment, first_setting(space_of(experiment.method), experiment))
    until = rungs(experiment.rounds.count)[0]
    return Job(f"{contestant.name}, trial 1", folder / "tuning" / contestant.folder / "trial-0", experiment, until)


def _finals(field: Field, tuned: Mapping[str, Tuned], seeds: int, folder: Path) -> dict[str, list[Job]]:
    """The last runs, one per method and seed, all on one dealing of the data."""
    finals: dict[str, list[Job]] = {}
    for each in field.contestants:
        experiment = chosen(each, tuned[each.name])
        finals[each.name] = []
        for seed in range(experiment.seed, experiment.seed + seeds):
            seeded = resolve(merge(experiment.model_dump(), {"seed": seed}))
            path = folder / "runs" / f"{each.folder}-seed{seed}"
            finals[each.name].append(Job(f"{each.name}, seed {seed}", path, seeded))
    return finals


def _run(jobs: Sequence[Job]) -> Line[str | None]:
    """Do jobs; the sentence of the first that failed."""
    failures = yield jobs
    return next(iter(failures.values()), None)


def _without(field: Field, left_out: Mapping[str, str | None]) -> Field:
    reasons = {name: why for name, why in left_out.items() if why}
    if not reasons:
        return field
    left = tuple(each for each in field.contestants if each.name not in reasons)
    if not left:
        raise MotetError(f"no method could run: {next(iter(reasons.values()))}")
    return Field(left, {**field.left_out, **reasons})


# ------------------------------------------------------------ the answer


def _judged(results: Results, field: Field, tuned: Mapping[str, Tuned], plan: Plan, folder: Path) -> dict[str, Any]:
    """comparison.json."""
    by_name = field.by_name()
    found = differences(results.personal, CONTROL)
    candidates = [
        Candidate(name, accuracy(ran.personal), by_name[name].simplicity, ran.bytes_per_round or 0.0)
        for name, ran in results.methods.items()
        if not by_name[name].yardstick
    ]
    if not candidates:
        raise MotetError("only yardsticks ran, which are no choice for a federation; accepted: other --methods too")
    answer = recommend(candidates, found)
    methods = []
    for name, ran in results.methods.items():
        methods.append(_of_method(name, ran, results, tuned[name], by_name[name], folder))
        if name != CONTROL and CONTROL in results.methods:
            methods[-1]["difference"] = _difference(found.of(name, CONTROL), CONTROL, found.certain(name, CONTROL))
        if name != answer.method:
            gap = found.of(name, answer.method)
            methods[-1]["to_recommended"] = _difference(gap, answer.method, found.certain(name, answer.method))
    chosen_one = next(each for each in methods if each["method"] == answer.method)
    return {
        "format": FORMAT,
        "recommended": {
            "method": answer.method,
            "options": chosen_one["options"],
            "expression": chosen_one["expression"],
            "reason": " ".join([answer.reason, *_more(chosen_one, results)]),
            "certain": answer.certain,
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
        "trials": [trial.as_json() for trial in tuned.trials],
    }


def _summed_up(table: Table) -> dict[str, Any]:
    """Mean over clients and seeds, standard deviation over seeds, 95 % interval."""
    found, by_seed = accuracy(table), table.mean(0)
    std = float(by_seed.std(ddof=1)) if len(by_seed) > 1 else None
    return {"mean": found.mean, "std": std, "interval": found.interval}


def _difference(found: Any, to: str, certain: bool) -> dict[str, Any]:
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
