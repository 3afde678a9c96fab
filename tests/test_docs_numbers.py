"""The numbers on the methods' pages and in the tables of all methods are those that were recorded."""

import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import pages  # noqa: E402
import scale_table  # noqa: E402
import tables_page  # noqa: E402

WRITTEN = pages.written()


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.stem)
def test_what_was_recorded_is_what_is_read(path: Path) -> None:
    assert path.read_text("utf-8") == WRITTEN[path], "python benchmarks/pages.py writes it"


def test_every_recorded_row_is_on_one_page_and_no_other() -> None:
    lines = [
        line
        for page in sorted(pages.METHODS.glob("*.md"))
        for table in re.findall(rf"^{re.escape(pages.HEAD)}\n\|[-|]+\|\n((?:\|.*\n)+)", page.read_text("utf-8"), re.M)
        for line in table.splitlines(keepends=True)
    ]
    wanted = [line for those in pages.on_pages().values() for line in those]
    assert sorted(lines) == sorted(wanted)


@pytest.mark.parametrize("name", [table.name for table in pages.TABLES])
def test_what_was_recorded_is_whole(name: str) -> None:
    found = json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text("utf-8"))
    assert all(case["runs"] and not case["failures"] for case in found["cases"].values())
    assert all(row.own_after for row in pages.rows(name))


def test_a_value_is_read_from_its_own_case() -> None:
    """One number by hand, so that the writer cannot agree with itself alone."""
    found = json.loads((ROOT / "benchmarks" / "results" / "fmnist-catalogue.json").read_text("utf-8"))
    mean = found["cases"]["fedper"]["figures"]["personal.split.personal_models"]["mean"]
    page = (pages.METHODS / "fedper.md").read_text("utf-8")
    assert f"| `fedper` | Fashion-MNIST | 25 | {100 * mean:.1f} | – | 97.44 |" in page


def test_what_was_measured_of_a_cluster_is_what_is_read() -> None:
    assert scale_table.PAGE.read_text("utf-8") == scale_table.written(), "python benchmarks/scale_table.py writes it"


def test_figures_of_real_tables_are_those_that_were_recorded() -> None:
    assert tables_page.PAGE.read_text("utf-8") == tables_page.written(), "python benchmarks/tables_page.py writes it"


def test_splits_that_are_missing_are_said() -> None:
    of = {"judged_by": "r2", "means": {name: {"r2": 0.5} for name in tables_page.COLUMNS.values()}, "lead": -0.02}
    whole = {**of, "splits": 5, "within": False, "above": False, "seconds": 60.0}
    assert "missing" not in tables_page.block({"tables": {"exam": whole}})
    said = tables_page.block({"tables": {"exam": whole, "wages": {**whole, "splits": 2, "within": True}}})
    assert "3 of 10 splits are missing" in said and "1 of 2 tables" in said
