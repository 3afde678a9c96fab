"""The picture of a partition: every class of every client has its shade, whatever the width and the encoding."""

import io

import pytest
from rich.console import Console

from motet.cli import main
from motet.report.tables.catalogue import FEWER, MOST_BLOCKS, Shading


def drawn(counts: list[list[int]], names: list[str], width: int = 80) -> list[str]:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    console.print(Shading(counts, names))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert max(map(len, lines)) <= width
    return lines


def test_a_shade_for_each_share() -> None:
    lines = drawn([[100, 0], [70, 30], [40, 60], [20, 80], [5, 95], [1, 99]], ["ill", "well"])
    assert lines[:3] == ["      0         5", f"ill   █ █ ▓ ▒ ░ {FEWER}", "well    ▒ ▓ █ █ █"]


def test_many_clients_stand_in_blocks_and_the_rest_is_counted() -> None:
    lines = drawn([[1, 1]] * 1000, ["a", "b"], 60)
    rows = [line for line in lines if line.startswith("a  ")]
    assert len(rows) == MOST_BLOCKS
    assert all(set(row[3:]) == {"▓"} for row in rows)
    drawn_clients = sum(len(row) - 3 for row in rows)
    assert f"{1000 - drawn_clients} more clients are not drawn" in " ".join(lines)


def test_many_classes_are_grouped() -> None:
    counts = [[0] * 100 for _ in range(3)]
    counts[1][7] = 5
    lines = drawn(counts, [str(c) for c in range(100)])
    assert next(line for line in lines if "█" in line) == "5–9      █"


def test_long_names_are_shortened_and_obey_nothing() -> None:
    lines = drawn([[1, 2]], ["a very long name of a class", "\x1b[31m[bold]"])
    assert any("…" in line for line in lines) and not any("\x1b" in line for line in lines)


def test_it_is_in_data_show(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "show", "digits", "--clients", "3", "--partition", "iid"]) == 0
    out = capsys.readouterr().out
    assert "A column for each client; of its samples, a class has: · fewer, ░ from 5%" in out
