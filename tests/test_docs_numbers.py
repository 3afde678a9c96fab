"""The numbers on the methods' pages are those that were recorded."""

import json
import re
from pathlib import Path

import pytest

from motet.studies.bench_file import read_bench

ROOT = Path(__file__).parents[1]
TABLES = {"Fashion-MNIST": "fmnist-catalogue", "UCI HAR": "har"}
HEAD = "| | data | rounds | own models | generic model | DBE's paper, converged |"


def shown(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{100 * value:.{digits}f}"


def recorded() -> set[tuple[str, ...]]:
    """A row for each case, as a page has it; cases that are there for another setting are left out."""
    rows = set()
    for data, name in TABLES.items():
        found = json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text())
        experiments = read_bench(ROOT / "benchmarks" / f"{name}.toml").experiments()
        for case, of in found["cases"].items():
            if ", " not in case:
                own, generic = (
                    of["figures"][f].get("mean") for f in ("personal.split.personal_models", "generic.accuracy")
                )
                paper = of["paper"].get("personal.split.personal_models")
                rounds = str(experiments[case].rounds.count)
                rows.add((f"`{case}`", data, rounds, shown(own), shown(generic), shown(paper, 2)))
    return rows


def on_pages() -> list[tuple[str, ...]]:
    rows = []
    for page in sorted((ROOT / "docs" / "methods").glob("*.md")):
        for table in re.findall(rf"^{re.escape(HEAD)}\n\|[-|]+\|\n((?:\|.*\n)+)", page.read_text("utf-8"), re.M):
            rows += [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in table.splitlines()]
    return rows


def test_every_recorded_row_is_on_a_page_and_no_other() -> None:
    rows = on_pages()
    assert len(rows) == len(set(rows)) and set(rows) == recorded()


@pytest.mark.parametrize("name", TABLES.values())
def test_what_was_recorded_is_whole(name: str) -> None:
    found = json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text())
    assert all(case["runs"] and not case["failures"] for case in found["cases"].values())
