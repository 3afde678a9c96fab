"""By which rule should `motet compare` recommend? What each method and each rule would have given on held-out rows.

    python benchmarks/recommending.py --record                  # start or continue, a split of a table at a time
    python benchmarks/recommending.py --record --backwards      # beside it, on another core: they meet in the middle
    python benchmarks/recommending.py --show                    # what is recorded

The tables are those of `tables.py` that take a minute each, and some that no default was ever set by (`NEW`). A quarter
of every client's rows is held out, `motet compare` runs on the others with its defaults, and each method's models are
trained once more with the setting that was chosen for it, as `motet export` does. Then each rule names its method.

The lead of a rule on a table is what its method has on held-out rows, less the better of pooled and alone regression,
all as means over splits. There were two questions.

1. Eight rules on tables that were `SEEN`. Written when 24 of 45 splits had been seen, by a script of the same steps: a
   rule takes the place of today's if its mean lead over all tables is higher, its mean over the new tables alone is not
   lower, and it puts no table a point below the regressions that today's rule has not there. What came out: no rule did
   all three. `safe_in_doubt` has the higher means, but puts fed-heart at -1.1; the others are below today's on the new
   tables. Today's stayed. What `safe_in_doubt` and `tuned_in_doubt` say was put down by commit e9ccf72, where the first
   was Motet's rule; they are asked no more.
2. One rule, `loss_in_doubt`, thought of on the same tables (there fine-tuning, one model for all and `local`, chosen by
   loss alone, had a mean lead of +0.66 and today's rule +0.23), and tables that are `FRESH`: none of them was looked at
   for this (`womenlf` had been tried once, with three methods). Written before any of it ran: it takes the place of
   today's if its mean lead over the fresh tables, three splits of each, is higher, and it puts no more of them a point
   below the regressions than today's does. What came out: -0.03 against -0.36, and three each (without womenlf +0.26
   against -0.14, two each). It is Motet's rule since. Neither is much here: tables of a few hundred rows, and of 8 %
   call-backs in seven industries, tell little.
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any
from unittest.mock import patch

import numpy as np
import tables
from tables import ALONE, POOLED, Table, of_package

import motet.studies.comparison as comparison
import motet.studies.recommend as recommending
from motet.export.refit import without_test_rows
from motet.metrics.statistics import CONTROL
from motet.runs.record import Record
from motet.runs.run import run
from motet.studies.space import with_setting

RESULTS = Path(__file__).parent / "results" / "recommending.json"
SPLITS = 5
SPLITS_OF_FRESH = 3
DIVERGED = 1e6
"""What stands for the answers of a model that is beyond all numbers: as bad as can be."""


# -------- The tables


def insurance() -> Any:
    """4,000 of the insured of the USA: who is in good health; seven in a hundred are not."""
    columns = "health age limit gender insurance married selfemp family region ethnicity education"
    return of_package("AER", "HealthInsurance", columns)().sample(4000, random_state=0)


NEW = (
    Table(
        "wvs",
        "what four countries think of poverty",
        "poverty",
        "country",
        of_package("carData", "WVS", "poverty religion degree country age gender"),
    ),
    Table("insurance", "health in four regions", "health", "region", insurance, "auroc"),
    Table(
        "nmes",
        "who has a private insurance beside Medicare, four regions",
        "insurance",
        "region",
        of_package(
            "AER",
            "NMES1988",
            "visits hospital health chronic adl region age gender married school income employed insurance",
        ),
    ),
)


def of_1987() -> Any:
    """545 young men of the USA in one of the years that were asked for."""
    columns = "year union school exper ethn maried health wage industry occupation residence"
    frame = of_package("Ecdat", "Males", columns)()
    return frame[frame["year"] == 1987].drop(columns="year")


def slid() -> Any:
    """4,000 of the people of Ontario whose wage is known."""
    frame = of_package("carData", "SLID", "wages education age sex language")()
    return frame.dropna(subset=["wages"]).sample(4000, random_state=0)


FRESH = (
    Table(
        "titanic",
        "who survived, three classes of passengers",
        "survived",
        "passengerClass",
        of_package("carData", "TitanicSurvival", "survived sex age passengerClass"),
    ),
    Table(
        "resumes",
        "who is called back, seven industries; 8 %",
        "call",
        "industry",
        of_package(
            "AER",
            "ResumeNames",
            "call gender ethnicity quality city jobs experience honors volunteer military holes school email computer "
            "special college minimum equal wanted requirements industry",
        ),
        "auroc",
    ),
    Table("union", "who is in a union, twelve industries", "union", "industry", of_1987),
    Table(
        "womenlf",
        "women at work, five regions of Canada",
        "partic",
        "region",
        of_package("carData", "Womenlf", "partic hincome children region"),
    ),
    Table("slid", "wages of three languages", "wages", "language", slid, "r2"),
    Table(
        "caschool",
        "test scores of 45 counties of California",
        "testscr",
        "county",
        of_package(
            "Ecdat", "Caschool", "county grspan enrltot teachers calwpct mealpct computer testscr expnstu avginc elpct"
        ),
        "r2",
    ),
)
OF_TABLES = ("heart", "fed-heart", "chile", "aids", "cancer", "wages")
SEEN = (*(table for table in tables.TABLES if table.name in OF_TABLES), *NEW)


GROUPS = {"seen": SEEN, "seen, new": NEW, "fresh": FRESH}


# -------- The rules


def sound(candidates: Sequence[Any]) -> list[Any]:
    """Return the methods that did not fail, or all."""
    return [c for c in candidates if not c.failed] or list(candidates)


def best_mean(candidates: Sequence[Any], found: Any, rows: Any, metric: Any, *more: Any) -> str:
    """The highest mean on test rows."""
    return str(max(sound(candidates), key=lambda c: metric.direction * c.estimate.mean).name)


def lowest_loss(candidates: Sequence[Any], found: Any, rows: Any, metric: Any, *more: Any) -> str:
    """The lowest loss on test rows; without losses the highest mean."""
    key = {c.name: -metric.direction * c.estimate.mean if c.loss is None else c.loss for c in candidates}
    return str(min(sound(candidates), key=lambda c: key[c.name]).name)


def fine_tuning(candidates: Sequence[Any], found: Any, rows: Any, metric: Any, *more: Any) -> str:
    """Fine-tuning, whatever the figures."""
    return CONTROL


def fine_tuning_but(candidates: Sequence[Any], found: Any, rows: Any, metric: Any, *more: Any) -> str:
    """Fine-tuning, but the best mean where it is ahead by more than a third of the margin."""
    best = max(sound(candidates), key=lambda c: metric.direction * c.estimate.mean)
    tuned = next((c for c in sound(candidates) if c.name == CONTROL), best)
    ahead = metric.direction * (best.estimate.mean - tuned.estimate.mean)
    return str(best.name if ahead > metric.margin / 3 else tuned.name)


def simplest(candidates: Sequence[Any], found: Any, rows: Any, metric: Any, *more: Any) -> str:
    """The simplest that may be as good, enough evidence or not: Motet's rule before `loss_in_doubt`."""
    with patch.object(recommending, "_simple_by_loss", lambda *asked: []):
        return str(RECOMMEND(candidates, found, rows, metric, *more).method)


def simplest_near(candidates: Sequence[Any], found: Any, rows: Any, metric: Any, *more: Any) -> str:
    """The same with a third of the margin."""
    return simplest(candidates, found, rows, replace(metric, margin=metric.margin / 3), *more)


def loss_in_doubt(candidates: Sequence[Any], found: Any, rows: Any, metric: Any, *more: Any) -> str:
    """The same; without enough evidence the lowest loss among simple methods that may be as good, as in Motet."""
    return str(RECOMMEND(candidates, found, rows, metric, *more).method)


RECOMMEND = recommending.recommend
RULES: dict[str, Callable[..., str]] = {
    rule.__name__: rule
    for rule in (
        simplest,
        simplest_near,
        loss_in_doubt,
        best_mean,
        lowest_loss,
        fine_tuning,
        fine_tuning_but,
    )
}


@contextmanager
def overheard(into: dict[str, str]) -> Any:
    """While this lasts, every comparison also asks the other rules, and puts down what they say."""

    def recommend(*asked: Any) -> Any:
        into.update({name: rule(*asked) for name, rule in RULES.items()})
        return RECOMMEND(*asked)

    with patch.object(comparison, "recommend", recommend):
        yield


# -------- A split of a table


def measured(table: Table, frame: Any, split: int) -> dict[str, Any]:
    """Return each method's figures on held-out rows, and which method each rule takes."""
    import motet

    held = (table.held_out or tables.a_quarter)(frame, table, split)
    train, test = frame[~held].reset_index(drop=True), frame[held].reset_index(drop=True)
    classes = [] if table.judged_by == "r2" else sorted(frame[table.label].unique())
    answers, chosen = dict[str, Any](), dict[str, str]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train.to_csv(folder / "table.csv", index=False)
        with overheard(chosen):
            found = motet.compare(
                str(folder / "table.csv"), label=table.label, client=table.client, jobs=1, out=folder / "study"
            )
        for method in found.file.methods:
            models = refitted(folder, method)
            given = tables.answered(models, table, test, classes)
            answers[method.method] = given if np.isfinite(given).all() else np.full(np.shape(given), DIVERGED)
            shutil.rmtree(models)
    answers |= tables.without_motet(table, train, test, classes)
    return {
        "table": table.name,
        "split": split,
        "commit": tables.commit_here(),
        "judged_by": table.judged_by,
        "chosen": chosen,
        "figures": {name: tables.figures(table, test, each, classes) for name, each in answers.items()},
    }


def refitted(folder: Path, method: Any) -> Path:
    """Return a folder with the models of a method, trained on all rows with the setting that all splits found best."""
    import motet

    asked = Record(folder / "study" / method.runs[0]).experiment
    trial = next(trial for trial in method.trials if trial.options == method.options)
    experiment = without_test_rows(with_setting(asked, method.options)).with_({"rounds.count": max(1, trial.rounds)})
    again = run(experiment, folder / f"run-{method.method}")
    motet.export(again, folder / f"models-{method.method}")
    return folder / f"models-{method.method}"


# -------- The record


def summary(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the lead of each rule over the better regression, by table and as means over tables."""
    leads: dict[str, dict[str, float]] = {}
    for table in dict.fromkeys(row["table"] for row in rows):
        mine = [row for row in rows if row["table"] == table]
        by = mine[0]["judged_by"]
        outside = max(fmean(row["figures"][who][by] for row in mine) for who in (POOLED, ALONE))
        leads[table] = {
            rule: fmean(row["figures"][row["chosen"][rule]][by] for row in mine) - outside
            for rule in mine[0]["chosen"]
            if all(rule in row["chosen"] for row in mine)
        }
    groups = {name: [t.name for t in of if t.name in leads] for name, of in GROUPS.items()}
    return {
        "leads": leads,
        "splits_of": {table: sum(row["table"] == table for row in rows) for table in leads},
        "mean": {name: means(leads, of) for name, of in groups.items() if of},
    }


def means(leads: dict[str, dict[str, float]], tables: Sequence[str]) -> dict[str, float]:
    """Return the mean lead of every rule that was asked on all these tables."""
    rules = [rule for rule in leads[tables[0]] if all(rule in leads[table] for table in tables)]
    return {rule: fmean(leads[table][rule] for table in tables) for rule in rules}


def show(found: dict[str, Any]) -> None:
    """Print a table per group, in points."""
    for name, of in found["mean"].items():
        names = [table.name for table in GROUPS[name] if table.name in found["leads"]]
        print(f"{name:18}" + "".join(f"{table:>11}" for table in names) + f"{'mean':>8}")
        for rule, mean in of.items():
            cells = "".join(f"{100 * found['leads'][table][rule]:+11.2f}" for table in names)
            print(f"{rule:18}{cells}{100 * mean:+8.2f}")


def recorded() -> list[dict[str, Any]]:
    """Return the splits that are recorded."""
    return json.loads(RESULTS.read_text("utf-8"))["splits"] if RESULTS.exists() else []


def record(row: dict[str, Any]) -> None:
    """Add a split to the record."""
    from motet.runs.environment import environment, machine_of

    kept = {(each["table"], each["split"]): each for each in (*recorded(), row)}
    rows = [kept[key] for key in sorted(kept)]
    text = {
        "study": "recommending",
        "command": "python benchmarks/recommending.py --record",
        "machine": machine_of(environment()),
        **summary(rows),
        "splits": rows,
    }
    lines = json.dumps({**text, "splits": []}, indent=1)[: -len("[]\n}")] + "[\n"
    RESULTS.write_text(lines + ",\n".join(json.dumps(each) for each in rows) + "\n]\n}\n", "utf-8")


def main(words: Sequence[str]) -> None:
    """Measure what is missing and show everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help=f"measure what is missing and keep it in {RESULTS.name}")
    parser.add_argument("--backwards", action="store_true", help="begin with the last: a second process beside")
    parser.add_argument("--show", action="store_true", help="show what is recorded")
    options = parser.parse_args(words)
    order = [
        (split, table)
        for of, splits in ((SEEN, SPLITS), (FRESH, SPLITS_OF_FRESH))
        for split in range(splits)
        for table in of
    ]
    for split, table in (order[::-1] if options.backwards else order) if options.record else ():
        if any((row["table"], row["split"]) == (table.name, split) for row in recorded()):
            continue
        if (frame := tables.loaded(table)) is not None:
            record(measured(table, frame, split))
    if rows := recorded():
        show(summary(rows))


if __name__ == "__main__":
    main(sys.argv[1:])
