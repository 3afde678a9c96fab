"""`motet show --clients`: a row per client by name, and one line that says how many gain and how many lose."""

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from motet.printable import printable, shortened
from motet.report.finished import Finished
from motet.report.of_clients import ClientRow, ClientsOfRun, each_beside_local, tally
from motet.report.packed import Packed
from motet.report.prose import Prose
from motet.report.words import NOTHING, percent, signed
from motet.scoring.pairs import Gain

WIDEST_TITLE = 60
MANY = 20  # from so many clients on, chance alone makes one a winner or a loser


def client_tables(runs: Sequence[Finished], local: Finished | None = None) -> Group:
    """One block per run; a run of `local` is the column "alone" of the others."""
    lines: list[RenderableType] = []
    for of_run in each_beside_local(runs, local):
        lines += [*([Text()] if lines else []), *_block(of_run)]
    return Group(*lines)


def clients_json(runs: Sequence[Finished], local: Finished | None = None) -> list[dict[str, Any]]:
    """The same for programs."""
    return [of_run.as_json() for of_run in each_beside_local(runs, local)]


def _block(of_run: ClientsOfRun) -> list[RenderableType]:
    run = of_run.run
    title = f"{run.method}, {shortened(printable(run.experiment.data.name), WIDEST_TITLE)}, seed {run.experiment.seed}"
    lines: list[RenderableType] = [Prose(title, "bold"), Text()]
    lines += [_table(of_run, of_run.training, ("one\nmodel", "own\nmodel")), Text()]
    lines += _verdict(of_run.training, "own model against the one for all")
    if of_run.has_alone:
        lines.append(Prose(_than_alone(of_run.training)))
    if of_run.new:
        lines += [Text(), Prose("New clients, before and after adaptation", "bold"), Text()]
        lines += [_table(of_run, of_run.new, ("before", "after")), Text()]
        lines += _verdict(of_run.new, "after against before")
    lines.append(Prose(f"Accuracies in percent on {_tests(of_run)}.", "dim"))
    return lines


def _table(of_run: ClientsOfRun, rows: Sequence[ClientRow], models: tuple[str, str]) -> Packed:
    named = any(row.person.name != str(row.person.id) for row in rows)
    columns = {
        "train": [_count(row.person.train) for row in rows],
        "test": [_count(row.person.test) for row in rows] if of_run.data == "split" else [],
        "alone": [percent(row.alone) for row in rows] if of_run.has_alone else [],
        models[0]: [percent(row.without) for row in rows],
        models[1]: [percent(row.own) for row in rows],
    }
    if any(row.gain for row in rows):
        columns["gain"] = [signed(row.gain.value) if row.gain else NOTHING for row in rows]
        columns["95 % interval"] = [_interval(row.gain) for row in rows]
    there = {title: cells for title, cells in columns.items() if cells}
    labels = [[str(row.person.id), *([printable(row.person.name)] if named else [])] for row in rows]
    return Packed(
        ["client", *(["name"] if named else [])], labels, list(there), list(zip(*there.values(), strict=True))
    )


def _verdict(rows: Sequence[ClientRow], how: str) -> list[RenderableType]:
    counts = tally(rows)
    if not any(counts.values()):
        return [Prose("No two models to compare: nobody gains or loses.")]
    words = [f"{_many(counts['gain'], 'gain')}, {_many(counts['lose'], 'lose')}, {counts['noise']} within noise"]
    if counts["unknown"]:
        words.append(f"{counts['unknown']} without an interval")
    lines: list[RenderableType] = [Prose(f"{', '.join(words)}: {how}.", "bold")]
    if sum(counts.values()) >= MANY and (counts["gain"] or counts["lose"]):
        lines.append(Prose("Of twenty clients without any difference, one leaves its interval by chance.", "dim"))
    return lines


def _than_alone(rows: Sequence[ClientRow]) -> str:
    pairs = [(row.own, row.alone) for row in rows if row.own is not None and row.alone is not None]
    better, worse = sum(own > alone for own, alone in pairs), sum(own < alone for own, alone in pairs)
    return f"Against alone: {better} higher, {worse} lower, {len(pairs) - better - worse} equal."


def _tests(of_run: ClientsOfRun) -> str:
    """On what, and where the interval comes from."""
    if of_run.data == "split":
        return "each client's own test data; 95 % interval from the samples on which the two models differ"
    samples = of_run.run.people.common_test
    size = f" ({samples} samples)" if samples else ""
    return f"the common test set{size}, weighted by each client's classes; 95 % interval from its samples"


def _many(count: int, verb: str) -> str:
    return f"{count} {verb}{'s' if count == 1 else ''}"


def _count(samples: int | None) -> str:
    return NOTHING if samples is None else str(samples)


def _interval(gained: Gain | None) -> str:
    if gained is None or gained.low is None or gained.high is None:
        return NOTHING
    return f"{signed(gained.low):>6} to {signed(gained.high):>6}"
