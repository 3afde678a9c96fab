"""Tables survive their surroundings: at any width no column goes missing, no digit is cut, no name is obeyed.

What they look like is in tests/snapshots; `MOTET_SNAPSHOTS=write pytest tests/test_tables.py` writes them anew.
"""

import os
import re
from collections import Counter
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from made_runs import made, numbers_of
from rich.cells import cell_len
from rich.console import Console, RenderableType

from motet.cli.console import output
from motet.io.text import printable, shortened
from motet.metrics.pairs import Gain
from motet.report.finished import Finished
from motet.report.progress import RunBars
from motet.report.tables import clients as clients_table
from motet.report.tables.catalogue import partition
from motet.report.tables.clients import ClientRow, ClientsOfRun, client_tables
from motet.report.tables.compared import chosen_settings
from motet.report.tables.layout import Packed
from motet.report.tables.runs import comparison
from motet.report.tables.seeds import TableLine, by_seed, differences_of
from motet.runs.clients_file import ClientInfo

SNAPSHOTS = Path(__file__).parent / "snapshots"
WIDTHS = (60, 80, 120, 200)

METHODS = ("local", "fedavg", "fedavg+ft", "fedprox(mu=0.01)", "scaffold", "feddyn", "fedrod", "pgfed", "fedbasis",
           "superfed-mm", "fedavg+dbe", "fedper", "fedrep", "ditto", "centralized")  # fmt: skip
LONG = (
    "fedprox(mu=0.01, epochs=5)+fedrod(hidden=16, head=hyper)+feddyn(alpha=0.1)",
    "fedprox(mu=0.01, epochs=5)+fedrod(hidden=16, head=hyper)+feddyn(alpha=0.2)",
    "[bold]file.py:Method[/bold]",
    "\x1b[31mred\x1b[0m\nmethod\u202e",
    "東京の方法",
)


def many() -> list[Finished]:
    return [
        made(
            name, base=0.6 + 0.01 * i, generic=name != "local", sent=name != "centralized", beside_local=name != "local"
        )
        for i, name in enumerate(METHODS)
    ]


def several_seeds() -> list[Finished]:
    return [
        made(name, seed=seed, base=base + spread * seed, beside_local=name != "local", generic=name != "local")
        for name, base, spread in (("local", 0.6, 0.003), ("fedavg", 0.7, 0.002), ("fedrod", 0.7015, 0.001))
        for seed in (0, 1, 2)
    ]


RUNS: dict[str, Callable[[], list[Finished]]] = {
    "long-names": lambda: [made(name, base=0.6 + 0.02 * i) for i, name in enumerate(LONG)],
    "many-runs": many,
    "no-new-clients": lambda: [made("fedavg", new=0.0), made("fedrod", new=0.0, base=0.7)],
    "natural-clients": lambda: [
        made("local", natural=True, generic=False, base=0.7),
        made("fedavg+ft", natural=True, beside_local=True),
    ],
    "family": lambda: [
        made("superfed-mm", figures={"member:0.4.weighted.accuracy.mean": 0.5, "rule:oracle.split.accuracy.mean": 0.6}),
        made("fedavg", base=0.5),
    ],
    "several-seeds": several_seeds,
    "differing": lambda: [
        made("fedavg", local={"lr": 0.1}, rounds={"count": 5}, folder="a"),
        made("fedavg", local={"lr": 0.01}, rounds={"count": 50}, base=0.7, folder="b"),
    ],
}


def rendered(table: RenderableType, width: int) -> str:
    file = StringIO()
    Console(file=file, width=width, highlight=False).print(table)
    return file.getvalue()


def compare_with_snapshot(name: str, table: RenderableType, capsys: pytest.CaptureFixture[str]) -> None:
    parts = [f"=== {width} columns\n{rendered(table, width)}" for width in WIDTHS]
    capsys.readouterr()
    output().print(table)
    text = "\n".join([*parts, f"=== pipe\n{capsys.readouterr().out}"])
    path = SNAPSHOTS / f"{name}.txt"
    if os.environ.get("MOTET_SNAPSHOTS") == "write":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def no_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)


# ------------------------------------------------------------ runs side by side


@pytest.mark.parametrize("name", RUNS)
def test_what_it_looks_like(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    compare_with_snapshot(name, comparison(RUNS[name]()), capsys)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", [name for name in RUNS if name not in ("several-seeds", "differing")])
def test_every_number_can_be_read_back(name: str, width: int) -> None:
    """Numbers are looked for in the lines of a run alone, whole: 95.2 is not found in 195.2 or in 95.21."""
    runs = RUNS[name]()
    text = rendered(comparison(runs), width)
    assert max(map(cell_len, text.splitlines())) <= width
    for run in runs:
        label = min((shortened(run.method, wide) for wide in range(8, 200)), key=lambda s: f"\n{s} " not in text)
        lines = [line for line in text.splitlines() if line.startswith(f"{label} ") and "  is  " not in line]
        assert lines, run.method
        found = Counter(re.findall(r"[\d.]+", " ".join(line.removeprefix(label) for line in lines)))
        assert found == Counter(numbers_of(run)), run.method


@pytest.mark.parametrize("width", WIDTHS)
def test_every_number_over_seeds_can_be_read_back(width: int) -> None:
    text = rendered(comparison(several_seeds()), width)
    lines = " ".join(line for line in text.splitlines() if line.startswith("fedavg "))
    values = [0.7 + 0.002 * seed + 0.0211 for seed in (0, 1, 2)]
    mean = f"{100 * sum(values) / 3:.1f}"
    assert re.search(rf" {re.escape(mean)} ± 0\.2[~*]? ", lines + " ")
    assert "n = 3" in text and "13 of 16" in lines and "12 of 16" in lines


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", RUNS)
def test_every_title_is_there(name: str, width: int) -> None:
    words = rendered(comparison(RUNS[name]()), width).split()
    for word in ("method", "accuracy", "own", "worst", "client", "improved", "MB", "seconds", "samples"):
        assert word in words, word


def test_a_column_that_nobody_has_is_not_there() -> None:
    assert "new clients" in rendered(comparison([made("fedavg")]), 120)
    assert "new clients" not in rendered(comparison(RUNS["no-new-clients"]()), 120)
    assert "baseline" not in rendered(comparison([made("fedavg")]), 120)


def test_the_headline_says_on_which_data() -> None:
    text = " ".join(rendered(comparison(RUNS["natural-clients"]()), 200).split())
    assert "headline: own models on each client's own test data; beside it on the common test set" in text
    text = " ".join(rendered(comparison([made("fedavg")]), 200).split())
    assert "headline: own models on the common test set, weighted by each client's classes; beside it on each" in text
    assert "224 samples" in text and "359 samples" in text  # 16 training clients with 14 each


def test_names_are_shown_as_text_and_long_ones_in_full_below() -> None:
    for width in WIDTHS:
        text = rendered(comparison(RUNS["long-names"]()), width)
        assert "\x1b" not in text and "\u202e" not in text and "[bold]" in text
        flat = " ".join(text.split())
        assert r"\x1b[31mred\x1b[0m\nmethod\u202e" in flat
        for name in LONG[:2]:
            assert name in flat


# ------------------------------------------------------------ the best, and chance


def stars(runs: list[Finished], each: bool = False) -> list[str]:
    text = rendered(comparison(runs, each), 200)
    return [line.split()[0] for line in text.splitlines() if re.search(r"\d\*", line)]


def test_the_best_is_marked_and_the_yardstick_is_none() -> None:
    assert stars(many()) == ["ditto"]
    assert stars([made("fedavg"), made("fedrod"), made("pgfed", base=0.5)]) == ["fedavg", "fedrod"]  # ties
    assert stars([made("fedavg")]) == []
    assert stars([made("fedavg"), made("fedrod", natural=True)]) == []  # not the same data
    assert stars(several_seeds(), each=True) == []  # other seeds have other clients


def test_the_best_is_bold_on_a_terminal() -> None:
    file = StringIO()
    Console(file=file, width=120, force_terminal=True).print(comparison([made("fedavg"), made("fedrod", base=0.7)]))
    assert "\x1b[1m82.1*\x1b[0m" in file.getvalue()


def line(*headlines: float) -> TableLine:
    values = enumerate(headlines)
    return TableLine(tuple(made("m", seed=i, figures={"personal.weighted.accuracy.mean": v}) for i, v in values))


def within_noise(best: TableLine, other: TableLine) -> bool | None:
    found = differences_of([best, other])
    return not found.certain("0", "1") if found.known("0", "1") else None


def test_what_may_be_chance() -> None:
    """Paired: a lead that is the same in every seed is none, however far the seeds are apart."""
    assert within_noise(line(0.50, 0.70, 0.90), line(0.49, 0.69, 0.89)) is False
    assert within_noise(line(0.50, 0.70, 0.90), line(0.52, 0.67, 0.90)) is True
    assert within_noise(line(0.5), line(0.4)) is None
    # t = 0.02 / (0.01 / sqrt(3)) = 3.46 < 4.303 with two degrees of freedom
    assert within_noise(line(0.53, 0.52, 0.51), line(0.50, 0.50, 0.50)) is True
    assert within_noise(line(0.533, 0.53, 0.527), line(0.50, 0.50, 0.50)) is False


def test_other_seeds_are_compared_as_independent() -> None:
    other = TableLine(tuple(made("m", seed=i, figures={"personal.weighted.accuracy.mean": v}) for i, v in
                       ((7, 0.50), (8, 0.51), (9, 0.52))))  # fmt: skip
    assert within_noise(line(0.90, 0.91, 0.92), other) is False
    assert within_noise(line(0.50, 0.52, 0.53), other) is True


def test_noise_is_said() -> None:
    figure = "personal.weighted.accuracy.mean"
    values = {"fedrod": (0.70, 0.75, 0.80), "fedavg": (0.72, 0.73, 0.76), "local": (0.50, 0.55, 0.60)}
    runs = [made(name, seed=i, figures={figure: v}) for name, of in values.items() for i, v in enumerate(of)]
    text = " ".join(rendered(comparison(runs), 200).split())
    assert "* the best; ~ its difference to the best may be chance (95 % intervals over clients and seeds" in text
    assert "corrected for all that is compared" in text and "73.7 ± 2.1~" in text and "55.0 ± 5.0~" not in text
    alone = " ".join(rendered(comparison(many()), 200).split())
    assert "one seed does not tell what another training would give" in alone


def test_twins_are_tied() -> None:
    """A lead that no reader can see, or that one test sample makes, is none."""
    text = " ".join(rendered(comparison(several_seeds()), 200).split())
    assert "* the best, tied within rounding or one test sample; the lead over the others is more than chance" in text
    assert stars(several_seeds()) == ["fedavg", "fedrod"]


def test_runs_that_differ_in_the_seed_alone_are_one_line() -> None:
    assert [each.seeds for each in by_seed(several_seeds())] == [(0, 1, 2)] * 3
    shared = [made("fedavg", seed=s, data={"partition_seed": 0}) for s in (0, 1, 2)]
    assert [each.seeds for each in by_seed(shared)] == [(0, 1, 2)]  # the partition's seed is the same for all
    twins = [made("fedavg", seed=0), made("fedavg", seed=0), made("fedavg", seed=1)]
    assert [each.seeds for each in by_seed(twins)] == [(0, 1), (0,)]  # no run counts twice
    other = [made("fedavg", seed=0), made("fedavg", seed=1, local={"lr": 0.5})]
    assert [each.seeds for each in by_seed(other)] == [(0,), (1,)]
    elsewhere = [made("fedavg", seed=0), made("fedavg", seed=1, engine={"workers": 2})]
    assert [each.seeds for each in by_seed(elsewhere)] == [(0, 1)]


def test_each_run_has_a_line_of_its_own_if_asked() -> None:
    text = rendered(comparison(several_seeds(), each=True), 200)
    assert len(re.findall(r"^fedavg +[012] ", text, re.MULTILINE)) == 3 and "±" not in text


# ------------------------------------------------------------ clients, partitions


HOSPITALS = ("Charité", "a hospital with a very long name, north wing", "a hospital with a very long name, south wing",
             "[red]Zürich[/red]", "病院", "line\nbreak\x07")  # fmt: skip


def clients() -> ClientsOfRun:
    run = made("fedavg+ft", natural=True, names=HOSPITALS)
    gains = (Gain(0.25, 0.123, 0.377), Gain(-0.031, -0.11, 0.05), Gain(-0.2, -0.31, -0.09), Gain(0.0, 0.0, 0.0),
             Gain(0.1), None)  # fmt: skip
    rows = [
        ClientRow(
            ClientInfo(id=i, name=name, new=i > 4, train=120 + i, val=0, test=31 + i),
            0.901 - i / 50,
            0.702 + i / 30,
            0.913 + i / 70,
            gained,
        )
        for i, (name, gained) in enumerate(zip(HOSPITALS, gains, strict=True))
    ]
    return ClientsOfRun(run, "split", rows[:5], rows[5:])


@pytest.fixture
def made_clients(monkeypatch: pytest.MonkeyPatch) -> ClientsOfRun:
    found = clients()
    monkeypatch.setattr(clients_table, "each_beside_local", lambda runs, local: [found])
    return found


def test_clients_by_name(made_clients: ClientsOfRun, capsys: pytest.CaptureFixture[str]) -> None:
    compare_with_snapshot("clients", client_tables([made_clients.run]), capsys)


@pytest.mark.parametrize("width", WIDTHS)
def test_every_number_of_a_client_can_be_read_back(made_clients: ClientsOfRun, width: int) -> None:
    text = rendered(client_tables([made_clients.run]), width).replace("−", "-")
    assert max(map(cell_len, text.splitlines())) <= width
    first = " ".join(line for line in text.splitlines() if re.match(r"0 +Charité ", line))
    assert Counter(re.findall(r"[+-]?[\d.]+", first.replace("Charité", ""))) == Counter(
        ["0"] * len(re.findall("Charité", first)) + ["120", "31", "90.1", "70.2", "91.3", "+25.0", "+12.3", "+37.7"]
    )
    assert "1 gains, 1 loses, 2 within noise, 1 without an interval" in " ".join(text.split())
    assert "\x07" not in text and r"line\nbreak\x07" in text


def test_a_partition_with_names(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {"id": i, "name": name, "new": i == 5, "train": 100 + i, "val": 0, "test": 20, "counts": [90 + i, 30, 0]}
        for i, name in enumerate(HOSPITALS)
    ]
    names = ("flu", "a diagnosis with a long name", "[b]x[/b]\x1b[1m")
    compare_with_snapshot("partition", partition(rows, 77, names), capsys)


# ------------------------------------------------------------ the pieces


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("Zürich 病院 [red] <b>", "Zürich 病院 [red] <b>"),
        ("a\nb\tc\r", r"a\nb\tc\r"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("\u202eabc\u200f\u2028", r"\u202eabc\u200f\u2028"),
        ("\ud800", r"\ud800"),
        ("\U000e0001", r"\U000e0001"),
        ("\x9b31m", r"\x9b31m"),
    ],
)
def test_what_a_terminal_would_obey_is_written_out(name: str, shown: str) -> None:
    assert printable(name) == shown


@pytest.mark.parametrize("text", ["a" * 50, "病" * 50, "a病" * 20, "short"])
@pytest.mark.parametrize("width", [8, 9, 20, 49])
def test_shortened_names_keep_both_ends(text: str, width: int) -> None:
    short = shortened(text, width)
    assert cell_len(short) <= width
    if cell_len(text) > width:
        head, dots, tail = short.partition("…")
        assert dots and text.startswith(head) and text.endswith(tail) and head and tail
    else:
        assert short == text


def test_tables_are_as_few_as_fit_and_a_group_stays_together() -> None:
    titles, cells = [f"t{i}" for i in range(6)], [["1234567890"] * 6]
    groups = ["", "g", "g", "g", "", ""]
    table = Packed(["method"], [["fedavg"]], titles, cells, groups)
    assert table.packs(200) == [[0, 1, 2, 3, 4, 5]]
    assert table.packs(60) == [[0, 1, 2, 3], [4, 5]]
    assert table.packs(45) == [[0], [1, 2, 3], [4, 5]]
    assert table.packs(20) == [[i] for i in range(6)]


def test_labels_that_would_look_alike_are_numbered() -> None:
    names = [f"{'a' * 30}{i}{'z' * 30}" for i in range(3)]
    text = rendered(Packed(["method"], [[name] for name in names], ["t"], [["1"], ["2"], ["3"]]), 40)
    rows = [line.split()[0] for line in text.splitlines() if line.startswith("aa") and "  is  " not in line]
    assert len(set(rows[:3])) == 3 and all(name in text.replace("\n", "") for name in names)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_bar_leaves_room_for_its_figures(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    file = StringIO()
    experiment = made("\x1b[31m[bold]a method of a file with a long name[/bold]", rounds={"count": 1000}).experiment
    with RunBars(Console(file=file, force_terminal=True, width=width)) as watcher:
        watcher.started(experiment, Path("there"), 0, None)
        scores = {"generic.common.accuracy.pooled": 0.987, "personal.weighted.accuracy.mean": 1.0}
        watcher.round({"round": 1000, **scores})
        watcher.bars.refresh()
    text = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", file.getvalue())
    assert "1000/1000" in text and "generic 98.7 %, personal 100.0 %" in text
    assert r"\x1b" in text


def test_a_table_that_follows_leaves_out_rows_with_nothing_in_it() -> None:
    cells = [["1" * 20, "2" * 20], ["3" * 20, "–"]]
    below = rendered(Packed(["method"], [["fedavg"], ["[pooled]"]], ["a", "b"], cells), 40)
    assert below.count("fedavg") == 2 and below.count("[pooled]") == 1
    empty = rendered(Packed(["method"], [["fedavg"]], ["a", "b"], [["1" * 30, "–"]]), 40)
    assert empty.count("fedavg") == 2


def test_settings_that_were_chosen_are_never_cut() -> None:
    """They stood in a column, whose end was beyond the screen."""
    options = {f"local.field{i}": f"value{i}" for i in range(12)}
    text = "".join(rendered(each, 40) for each in chosen_settings([("fedavg", options), ("local", {})]))
    assert all(f"=value{i}" in text for i in range(12)) and "local:" not in text
    assert max(map(cell_len, text.splitlines())) <= 40
    assert chosen_settings([("local", {})]) == []
