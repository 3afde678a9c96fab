"""Finished runs side by side: one line for each run or for all seeds of an experiment, with the best marked."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from rich.console import Group
from rich.text import Text

from motet.config.identity import differing_fields, field_of
from motet.config.sections import RoundSettings
from motet.io.text import printable, shortened
from motet.metrics.classification import AUROC
from motet.metrics.names import AFTER
from motet.metrics.registry import ACCURACY
from motet.metrics.statistics import tied
from motet.metrics.wording import data_name, own_models, percent, title_of_metric
from motet.report.finished import Finished
from motet.report.tables.columns import DERIVED, MOST_FREQUENT, Column, figure_columns
from motet.report.tables.layout import Packed, Prose
from motet.report.tables.seeds import TableLine, by_seed, differences_of

MOST_DIFFERENCES = 3
WIDEST_VALUE = 40
BEST, NEAR, FAILED = "*", "~", " !"
CHANCE = "95 % intervals over clients and seeds, corrected for all that is compared"

_TESTS = {
    "weighted": "the common test set, weighted by each client's classes",
    "split": "each client's own test data",
    "validation": "each client's validation data",
}
_GROUPS = {"weighted": "common test set\nby class", "split": "own test data", "validation": "validation data"}
_WEIGHTINGS = {"uniform": "mean over clients", "by_samples": "mean over clients by samples"}
_REPORTS = {
    "last": "last round",
    "best": "best round on test data",
    "best_on_validation": "best round on validation data",
}


def comparison(runs: Sequence[Finished], each: bool = False) -> Group:
    """Return a table with one line per run, or per experiment over its seeds, and the fields in which lines differ."""
    lines = [TableLine((run,)) for run in runs] if each else by_seed(runs)
    differing = differing_lines(lines)
    shown, left_out = differing[:MOST_DIFFERENCES], differing[MOST_DIFFERENCES:]
    labels = [[_marked(line), *(_value(line, name) for name in shown)] for line in lines]
    if len(set(map(tuple, labels))) < len(labels):  # equal labels get the names of their folders
        shown = [*shown, "run"]
        labels = [[*label, line.first.name] for label, line in zip(labels, lines, strict=True)]
    columns = figure_columns([run.summary for run in runs])
    best = best_of(lines, differing)
    marks = Marks.of(lines, best)
    table = Packed(
        [name.replace(".", ".\n") for name in ("method", *shown)],
        labels,
        [column.title for column in columns],
        [[marks.cell(column, line) for column in columns] for line in lines],
        [f"{_GROUPS[column.data]}\n{_samples(runs, column.data)}" if column.data else "" for column in columns],
    )
    notes = [measured(runs, columns), *served(runs), *over_seeds(lines), *marks.words()]
    notes += failures(lines)
    if left_out:
        notes.append(f"The runs also differ in {', '.join(left_out)}.")
    return Group(
        Prose(title_of(lines, differing), "bold"), Text(), table, Text(), *(Prose(note, "dim") for note in notes)
    )


# -------- What differs


def differing_lines(lines: Sequence[TableLine]) -> list[str]:
    """Return the fields in which lines of a table differ; the seed counts where lines are of other seeds."""
    names = differing_fields([line.first.experiment for line in lines])
    seeds = ["seed"] if len({line.seeds for line in lines}) > 1 else []
    every = [run.experiment for line in lines for run in line.runs]
    follows = {"data.partition_seed"} if all(e.data.partition_seed == e.seed for e in every) else set()
    return seeds + [name for name in names if name not in {"seed"} | follows]


def _value(line: TableLine, name: str) -> str:
    return _seeds(line) if name == "seed" else printable(field_of(line.first.experiment, name))


def _seeds(line: TableLine) -> str:
    seeds = tuple(dict.fromkeys(line.seeds))  # several splits have the same ones
    if len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[-1] + 1)):
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds))


# -------- The best


def best_of(lines: Sequence[TableLine], differing: Sequence[str]) -> TableLine | None:
    """Return the line with the best main figure, if lines can be compared: the same data, the same figure.

    `centralized` is only a reference and is never the best: it needs all data in one place.
    """
    if len({line.first.headline for line in lines}) > 1 or any(name.startswith("data.") for name in differing):
        return None
    if "seed" in differing and all(len(line.runs) == 1 for line in lines):  # each seed has other clients
        return None
    scored = [line for line in lines if line.headline() and not is_yardstick(line)]
    return max(scored, key=lambda line: line.first.metric.direction * _mean(line)) if len(scored) > 1 else None


def _mean(line: TableLine) -> float:
    return fmean(line.headline().values() or [-1.0])


def is_yardstick(line: TableLine) -> bool:
    """Return whether the method trains on all data in one place."""
    return line.first.summary.bytes_per_round.down is None


def _marked(line: TableLine) -> str:
    return line.first.method + FAILED * bool(line.warnings())


def failures(lines: Sequence[TableLine]) -> list[str]:
    """Return sentences about what failed in runs that came to their end; their lines are marked."""
    return [f"{FAILED.strip()} {line.first.method}: {'; '.join(said)}." for line in lines if (said := line.warnings())]


def over_seeds(lines: Sequence[TableLine]) -> list[str]:
    """Return what ± means and over how many seeds."""
    counts = sorted({len(line.runs) for line in lines if len(line.runs) > 1})
    if not counts:
        return []
    n = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return [f"Mean ± standard deviation over seeds (n = {n}); `--each` shows every run."]


@dataclass(frozen=True)
class Marks:
    """Which lines of a table are the best, and which may be as good."""

    lines: Sequence[TableLine]
    best: tuple[TableLine, ...]  # several if their values look the same in the table
    near: tuple[TableLine, ...]  # their difference to the best may be chance
    unknown: bool = False  # for some lines it is not known whether the difference is chance

    @classmethod
    def of(cls, lines: Sequence[TableLine], best: TableLine | None) -> "Marks":
        """Return the marks of these lines, by the tests of `motet/metrics/statistics.py`."""
        if best is None:
            return cls(lines, (), ())
        scored = [line for line in lines if line.headline()]
        found, first = differences_of(scored), str(scored.index(best))
        choices = [(str(i), line) for i, line in enumerate(scored) if not is_yardstick(line)]
        ties = [line for _, line in choices if tied(_mean(line), _mean(best), _tested(best))]
        others = [(i, line) for i, line in choices if line not in ties]
        near = tuple(line for i, line in others if found.known(i, first) and not found.certain(i, first))
        return cls(lines, tuple(ties), near, any(not found.known(i, first) for i, _ in others))

    def cell(self, column: Column, line: TableLine) -> str | Text:
        """Return the text of a cell, with the mark of the line if the column is the headline's."""
        text = column.cell([run.summary for run in line.runs])
        if not column.headline or not self.best:
            return text
        return Text(text + BEST, style="bold") if line in self.best else text + (NEAR if line in self.near else " ")

    def words(self) -> list[str]:
        """Return the sentences below the table: what its marks mean, and what cannot be decided."""
        if not self.best:
            return []
        also = " but for the yardstick" if any(is_yardstick(line) for line in self.lines) else ""
        words = [f"{BEST} the best{also}" + (", tied within rounding or one test sample" if len(self.best) > 1 else "")]
        compared = [line for line in self.lines if line.headline() and not is_yardstick(line)]
        several = len(compared) > len(self.best)
        if self.near:
            words.append(f"{NEAR} its difference to the best may be chance ({CHANCE})")
        elif several and not self.unknown:
            words.append(f"the lead over the others is more than chance ({CHANCE})")
        if several and all(len(line.runs) == 1 for line in compared):
            words.append("one seed does not tell what another training would give: run others, such as --seed 1")
        elif self.unknown:
            words.append("of some nothing can be told: they share no seeds")
        return ["; ".join(words) + "."]


def _tested(line: TableLine) -> int:
    """Return how many answers to test samples the headline rests on, over all seeds; 0 if that is not known."""
    run = line.first
    found = {"split": run.clients_info.own_test, "weighted": run.clients_info.common_test}.get(run.headline.data)
    return (found or 0) * len(line.runs) if run.metric is ACCURACY else 0


# -------- Title and notes


def title_of(lines: Sequence[TableLine], differing: Sequence[str]) -> str:
    """Return a title of what the runs have in common."""
    experiment, data = lines[0].first.experiment, lines[0].first.experiment.data
    several = len(lines[0].seeds) > 1
    nets = {run.experiment.net.name for line in lines for run in line.runs}  # splits may have chosen others
    facts = {
        "data.name": shortened(printable(data_name(data.name)), WIDEST_VALUE),
        "data.partition": printable(data.partition),
        "data.clients": f"{_clients(lines)} clients",
        "data.new_clients": f"{100 * data.new_clients:.0f} % of them new" if data.new_clients else "",
        "net.name": f"net {shortened(printable(experiment.net.name), WIDEST_VALUE)}" if len(nets) == 1 else "",
        "rounds.count": _rounds(experiment.rounds),
        "seed": f"seeds {_seeds(lines[0])}" if several and len(set(lines[0].seeds)) > 1 else f"seed {experiment.seed}",
    }
    return ", ".join(v for k, v in facts.items() if v and k not in differing)


def _rounds(rounds: RoundSettings) -> str:
    most = f"{rounds.last} round{'s' if rounds.last > 1 else ''}"
    return f"at most {most}" if rounds.count == "auto" else most


def _clients(lines: Sequence[TableLine]) -> int:
    """Return how many clients there are: natural ones, and those of domains, are not counted by the experiment."""
    run = lines[0].first
    return len(run.clients_info.clients) or run.experiment.data.clients


def _samples(runs: Sequence[Finished], data: str) -> str:
    """Return how many samples the test data have."""
    found = {{"split": run.clients_info.own_test, "weighted": run.clients_info.common_test}.get(data) for run in runs}
    counts = sorted(n for n in found if n)
    if not counts or None in found:
        return ""
    return f"{counts[0]} samples" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} samples"


def served(runs: Sequence[Finished]) -> list[str]:
    """Return sentences about which model is a client's personal model, by method."""
    return own_models((run.method, run.summary.reported.model_dump()) for run in runs)


_POOLED = "generic model over all samples of the common test set, or of clients' own test data, at once"


def _by_accuracy(runs: Sequence[Finished]) -> bool:
    return all(run.metric is ACCURACY for run in runs)


def _values_of(runs: Sequence[Finished]) -> str:
    """Return what the values are: "Accuracies in percent", or "Values are AUROC"."""
    if _by_accuracy(runs):
        return "Accuracies in percent"
    return f"Values are {' or '.join(dict.fromkeys(title_of_metric(run.metric) for run in runs))}"


def _rarer_class(runs: Sequence[Finished]) -> list[str]:
    """Return how rare the rarer of two classes is, where that is known and AUROC is the main figure: the reason why."""
    info = runs[0].clients_info
    counts = [client.counts for client in info.clients if not client.new]
    if any(run.metric is not AUROC for run in runs) or not all(len(of) == 2 for of in counts) or len(info.classes) != 2:
        return []
    both = [sum(of[c] for of in counts) for c in (0, 1)]
    rarer = both.index(min(both))
    return [f"the rarer class, {printable(info.classes[rarer])}, has {percent(min(both) / sum(both))} % of the rows"]


def measured(runs: Sequence[Finished], columns: Sequence[Column]) -> str:
    """Return a sentence about what the figures mean, as far as it is the same for all runs."""
    words = [_values_of(runs), *_rarer_class(runs)]
    headlines = {run.headline.data for run in runs}
    whose = {"new clients' adapted models" if run.headline.model == AFTER else "own models" for run in runs}
    if len(headlines) == len(whose) == 1:
        (data,) = headlines
        words.append(f"headline: {whose.pop()} on {_TESTS[data]}")
    others = {column.data for column in columns if column.data} - headlines
    words += [f"beside it on {_TESTS[data]}" for data in others]
    rules = [run.summary.reported for run in runs]
    for meanings, values in (
        (_WEIGHTINGS, {rule.client_weighting for rule in rules}),
        (_REPORTS, {rule.rule for rule in rules}),
    ):
        if len(values) == 1:
            words.append(meanings[values.pop()])
    words.append("generic accuracy on the whole common test set, every sample alike" if _by_accuracy(runs) else _POOLED)
    if any(column.title.endswith(MOST_FREQUENT) for column in columns):
        words.append(
            "most frequent class: always answering with the one that is most frequent in a client's training data"
        )
    if any(run.summary.generic.derived for run in runs):
        words.append(f"{DERIVED} no model of the method: the mean of the personal models")
    return "; ".join(words) + "."
