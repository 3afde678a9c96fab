"""Write the recorded numbers of all methods where they are read: each method's page, and the tables of README.md here.

    python benchmarks/pages.py

Run it after `motet bench ... --record`; tests/test_docs_numbers.py fails where somebody forgot.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from motet.studies.bench_file import read_bench

ROOT = Path(__file__).parents[1]
METHODS = ROOT / "docs" / "methods"
README = ROOT / "benchmarks" / "README.md"
HEAD = "| | data | rounds | own models | generic model | DBE's paper, converged |"
NOTE = "One seed, the best round, after DBE's protocol; setting and all methods side by side: `benchmarks/README.md`."
MARK = "<!-- written by pages.py: {} -->\n"


@dataclass(frozen=True)
class Table:
    """A bench of many methods."""

    data: str
    name: str
    after: tuple[int, ...]
    """Rounds that README.md shows."""


TABLES = (Table("Fashion-MNIST", "fmnist-catalogue", (5, 10, 25)), Table("UCI HAR", "har", (5, 10, 25, 50)))


@dataclass(frozen=True)
class Row:
    """What was recorded of a case, in shares."""

    case: str
    rounds: int
    own: float | None
    generic: float | None
    own_after: list[float | None]
    """Each round; what came before the first, as DBE's mean, is no round."""
    generic_last: float | None
    paper: float | None


def rows(name: str) -> Iterator[Row]:
    """Of a bench, in the order of its file."""
    found = json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text("utf-8"))
    for case, experiment in read_bench(ROOT / "benchmarks" / f"{name}.toml").experiments().items():
        of, rounds = found["cases"][case], experiment.rounds.count
        figures = of["figures"]
        yield Row(
            case,
            rounds,
            figures["personal.split.personal_models"].get("mean"),
            figures["generic.accuracy"].get("mean"),
            figures["curve.personal.split.accuracy.by_samples"]["per_seed"][0][-rounds:],
            figures["curve.generic.split.accuracy.by_samples"]["per_seed"][0][-1],
            of["paper"].get("personal.split.personal_models"),
        )


# ------------------------------------------------------------ where they stand


def on_pages() -> dict[Path, list[str]]:
    """The lines of each method's page: a case stands where its last part does; one of another setting nowhere."""
    index = (METHODS / "README.md").read_text("utf-8")
    page_of = dict(reversed(re.findall(r"^\| \[([\w-]+)\]\(([\w-]+\.md)\)", index, re.M)))
    lines: dict[Path, list[str]] = {}
    for table in TABLES:
        for row in rows(table.name):
            if ", " not in row.case:
                page = METHODS / page_of[row.case.split("+")[-1]]
                cells = (f"`{row.case}`", table.data, str(row.rounds), *map(_percent, (row.own, row.generic)))
                lines.setdefault(page, []).append(_line(*cells, _percent(row.paper, 2)))
    return {page: sorted(those, key=lambda line: line.split("|")[1]) for page, those in lines.items()}


def side_by_side(table: Table) -> str:
    """A bench as README.md has it."""
    after = [f"after {n}" for n in table.after]
    text = _line("case", "rounds", *after, "generic, last", "paper") + "|---" * (len(after) + 4) + "|\n"
    for row in rows(table.name):
        own = [_percent(row.own_after[n - 1] if n <= row.rounds else None) for n in table.after]
        text += _line(row.case, str(row.rounds), *own, _percent(row.generic_last), _percent(row.paper, 2))
    return text


def written() -> dict[Path, str]:
    """Every file as it should be."""
    texts = {README: README.read_text("utf-8")}
    for table in TABLES:
        begin, end = MARK.format(table.name), MARK.format(f"end of {table.name}")
        before, _, rest = texts[README].partition(begin)
        texts[README] = before + begin + side_by_side(table) + end + rest.partition(end)[2]
    for page, lines in on_pages().items():
        text = re.sub(rf"{re.escape(HEAD)}\n(?:\|.*\n)+\n{re.escape(NOTE)}\n\n", "", page.read_text("utf-8"))
        before, reference, rest = text.partition("## Reference")
        title = "" if "## Numbers\n" in before else "## Numbers\n\n"
        block = HEAD + "\n" + "|---" * 6 + "|\n" + "".join(lines) + "\n" + NOTE + "\n\n"
        texts[page] = before + title + block + reference + rest
    return texts


def _line(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |\n"


def _percent(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{100 * value:.{digits}f}"


if __name__ == "__main__":
    for path, text in written().items():
        path.write_text(text, encoding="utf-8")
