"""The table of docs/message-transforms.md is what benchmarks/transforms.py recorded."""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import transforms as bench  # noqa: E402

RECORDED = json.loads(bench.OUT.read_text(encoding="utf-8"))


def test_the_table_is_what_was_recorded() -> None:
    page = (ROOT / "docs" / "message-transforms.md").read_text(encoding="utf-8")
    assert "\n".join(bench.lines(RECORDED["transforms"])) in page


def test_what_was_recorded_is_whole_and_of_the_setting_as_it_stands() -> None:
    assert RECORDED["setting"] == bench.SETTING
    assert [name or "none" for name in bench.TRANSFORMS] == list(RECORDED["transforms"])
    assert all(sorted(row["runs"]) == sorted(map(str, bench.SEEDS)) for row in RECORDED["transforms"].values())
