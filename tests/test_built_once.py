"""A study reads its data once in each process, notices when a file changes, and gets the same numbers."""

import json
from collections import Counter
from contextlib import nullcontext
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_compare import timeless
from test_tune import Nobody

from motet.cli import main
from motet.config.data_section import DataSettings
from motet.config.short_names import choose
from motet.data import build as build_federation
from motet.data import built_once as sharing
from motet.data.built_once import MOST_KEPT, built_once
from motet.studies.compare import CompareRequest, compare_methods

SOURCE = """
import os
from pathlib import Path
import numpy as np
from motet.data import Source, from_arrays


def source(download):
    with open(Path(__file__).with_name("reads.txt"), "a") as file:
        file.write(f"{os.getpid()}\\n")
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    return from_arrays({"x": rng.normal(size=(120, 4)) + y[:, None], "y": y}, "mine")


entry = Source("mine", "numbers", "nowhere", "CC0", "mlp", source)
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_table(tmp_path / "rows.csv", 0)


def write_table(path: Path, seed: int) -> Path:
    rng = np.random.default_rng(seed)
    lines = ["a,b,hospital,outcome"]
    lines += [
        f"{a:.3f},{b:.3f},h{i % 4},{'yes' if a + b > 0 else 'no'}" for i, (a, b) in enumerate(rng.normal(size=(160, 2)))
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def request(data: Path) -> CompareRequest:
    short = {"data": str(data), "label": "outcome", "client": "hospital", "rounds": 3, "epochs": 1, "cohort": 1.0}
    return CompareRequest(choose(short), ("local", "fedavg", "fedavg+ft"), 2, 2)


def compared(data: Path, folder: Path) -> dict[str, Any]:
    found = compare_methods(request(data), folder, 1, lambda total: nullcontext(Nobody()))
    return timeless(json.loads(found.to_json()))


def test_a_comparison_deals_its_table_once_for_tuning_and_once_for_the_last_runs(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than twenty times where every job reads it: for each rung of a trial and each last run. Same numbers."""
    builds: list[int] = []
    build = build_federation.__globals__["_build"]

    def watched(settings: DataSettings, seed: int) -> Any:
        builds.append(seed)
        return build(settings, seed)

    monkeypatch.setitem(build_federation.__globals__, "_build", watched)
    shared = compared(table, tmp_path / "shared")
    assert len(builds) == 2  # with validation rows for tuning, and without for the last runs
    builds.clear()
    monkeypatch.setattr(sharing, "MOST_KEPT", 0)  # nothing is kept but the last, whose key is never the same
    numbers = count()
    monkeypatch.setattr(sharing, "_identity", lambda path: (next(numbers),))
    assert compared(table, tmp_path / "each") == shared
    assert len(builds) > 20


def test_each_worker_reads_at_most_twice(tmp_path: Path) -> None:
    (tmp_path / "texts.py").write_text(SOURCE)
    words = ["compare", f"{tmp_path / 'texts.py'}:entry", "--partition", "iid", "--clients", "4", "--rounds", "2"]
    words += [
        "--methods",
        "local,fedavg",
        "--trials",
        "2",
        "--seeds",
        "2",
        "--jobs",
        "2",
        "--out",
        str(tmp_path / "it"),
    ]
    assert main(words) == 0
    reads = Counter((tmp_path / "reads.txt").read_text().split())
    assert max(reads.values()) <= 2, "with validation rows for tuning, and without for the last runs"
    assert 3 <= len(reads) <= 5, "this process, and two workers for each of two stages"


def test_a_file_that_changes_is_read_again(table: Path) -> None:
    settings = choose({"data": str(table), "label": "outcome", "client": "hospital"}).data
    with built_once():
        first = build_federation(settings, 0)
        assert build_federation(settings, 0) is first
        assert build_federation(settings, 1) is not first, "dealt by another seed"
        write_table(table, 1)
        again = build_federation(settings, 0)
    assert again.content_hash != first.content_hash
    assert build_federation(settings, 0) is not again, "outside of a study nothing is kept"


def test_so_is_a_schema(table: Path, tmp_path: Path) -> None:
    assert (
        main(
            [
                "data",
                "schema",
                str(table),
                "--label",
                "outcome",
                "--client",
                "hospital",
                "--out",
                str(tmp_path / "s.toml"),
            ]
        )
        == 0
    )
    short = {"data": str(table), "label": "outcome", "client": "hospital", "schema": str(tmp_path / "s.toml")}
    settings = choose(short).data
    with built_once():
        first = build_federation(settings, 0)
        assert build_federation(settings, 0) is first
        (tmp_path / "s.toml").write_text((tmp_path / "s.toml").read_text() + "\n# another\n")
        assert build_federation(settings, 0) is not first


def test_few_are_kept(table: Path) -> None:
    settings = choose({"data": str(table), "label": "outcome", "client": "hospital"}).data
    with built_once():
        first = build_federation(settings, 0)
        for seed in range(1, MOST_KEPT + 1):
            build_federation(settings, seed)
        assert build_federation(settings, MOST_KEPT) is build_federation(settings, MOST_KEPT)
        assert build_federation(settings, 0) is not first
