"""`motet bench`: a grid that one writes down, and its tables."""

import csv
import json
import re
import shutil
from contextlib import nullcontext
from copy import deepcopy
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from test_compare import timeless
from test_tune import Killed, KilledAfter, Nobody

import motet
from motet.cli import main
from motet.config.experiment import resolve
from motet.config.nesting import merge
from motet.errors import MotetError
from motet.methods.registry import canonical
from motet.report.tables.bench import bench_table, draw_tables, to_csv, to_latex, to_markdown
from motet.runs.record import Record
from motet.studies.bench import BenchResults, run_bench, value_of
from motet.studies.bench_file import BenchFile, read_bench

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
TEXT = """
name = "tiny"
claim = "personal heads beat one model where classes differ"
figures = ["personal.weighted.personal_models", "generic.accuracy", "curve.train_loss"]
seeds = [0, 1]
[setting]
data = { name = "digits", clients = 4, subset = 0.4 }
rounds = { count = 2, cohort = 1.0 }
local = { epochs = 1, lr = 0.05 }
[grid]
method = ["fedavg", "fedper"]
partition = ["dirichlet:0.1", "iid"]
[[paper]]
table = "Nobody's Table 1"
figures = ["generic.accuracy"]
values = { "fedavg, iid" = 91.0 }
[[paper]]
table = "Elsewhere"
values = { FedPer = [80.0, 81.5] }
"""


def bench_of(text: str, folder: Path) -> BenchFile:
    path = folder / "bench.toml"
    path.write_text(text)
    return read_bench(path)


def compute(bench: BenchFile, folder: Path, progress: Any = None, quick: bool = False) -> dict[str, Any]:
    look_on = lambda total: nullcontext(progress or Nobody())  # noqa: E731
    return json.loads(run_bench(bench, folder, 1, look_on, quick, draw_tables).to_json())


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("bench")
    return folder / "it", compute(bench_of(TEXT, folder), folder / "it")


# ---------------------------------------------------------------- the file


def test_every_combination_of_the_grid_is_a_case(tmp_path: Path) -> None:
    cases = bench_of(TEXT, tmp_path).experiments()
    assert list(cases) == ["fedavg, dirichlet:0.1", "fedavg, iid", "fedper, dirichlet:0.1", "fedper, iid"]
    assert cases["fedper, iid"].method == "fedper" and cases["fedper, iid"].data.partition == "iid"


def test_named_cases_and_a_grid(tmp_path: Path) -> None:
    text = 'name = "x"\nfigures = ["generic.accuracy"]\n[grid]\n"local.lr" = [0.1, 0.2]\n'
    cases = bench_of(text + '[cases]\nours = { method = "ditto(lam=0.1)" }\n', tmp_path).experiments()
    assert {name: (e.method, e.local.lr) for name, e in cases.items()} == {
        "ours, 0.1": ("ditto(lam=0.1)", 0.1),
        "ours, 0.2": ("ditto(lam=0.1)", 0.2),
    }


def test_quick_is_short(tmp_path: Path) -> None:
    bench = bench_of(TEXT.replace("count = 2", "count = 50") + "[quick]\nlocal = { batch = 80 }\n", tmp_path)
    assert {(e.rounds.count, e.local.batch) for e in bench.experiments(quick=True).values()} == {(2, 80)}
    assert {e.rounds.count for e in bench.experiments().values()} == {50}


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('name = "tiny"', 'name = "tiny"\nnam = "x"', "unknown field 'nam'"),
        ('name = "tiny"\n', "", "name is missing; accepted: text"),
        ("seeds = [0, 1]", "seeds = []", "seeds is"),
        ("seeds = [0, 1]", 'seeds = "all"', "seeds is 'all'; accepted: a list of a whole number"),
        ('partition = ["dirichlet:0.1", "iid"]', "partition = []", "grid.partition is empty"),
        ("lr = 0.05", "lr = -1", "local.lr is -1"),
        ("clients = 4", "clientss = 4", "clientss"),
        ('figures = ["generic.accuracy"]', 'figures = ["generic"]', "paper.figures names 'generic'; accepted: "),
        ('"fedavg, iid" = 91.0', "fedavg = 91.0", "paper.values names 'fedavg'; accepted: cases, fedavg, dirichlet"),
        ("seeds = [0, 1]", "seeds = [0, 1", "not valid TOML"),
    ],
)
def test_mistakes_are_one_sentence(old: str, new: str, sentence: str, tmp_path: Path) -> None:
    assert old in TEXT
    with pytest.raises(MotetError) as caught:
        bench_of(TEXT.replace(old, new, 1), tmp_path)
    assert sentence in str(caught.value)


@pytest.mark.parametrize("path", sorted(BENCHMARKS.glob("*.toml")), ids=lambda path: path.stem)
def test_the_benches_of_this_repository_are_those_that_were_recorded(path: Path) -> None:
    bench = read_bench(path)
    assert bench.name == path.stem
    recorded = BENCHMARKS / "results" / f"{bench.name}.json"
    if not recorded.exists():
        pytest.skip("nothing is recorded yet")
    found = json.loads(recorded.read_text())
    if "format" in found:  # those without are of scripts, or older than the format
        assert BenchResults.from_json(recorded.read_bytes(), recorded.name).bench == bench.name
    for name, experiment in bench.experiments().items():
        assert canonical(experiment.method) == canonical(found["cases"][name]["method"])
        values = merge(found["setting"], {"method": experiment.method})
        begins = [case for case in bench.cases if name.startswith(f"{case}, ")]
        case = bench.cases.get(name if name in bench.cases else next(iter(begins), ""), {})
        same = {"rounds", "data", "net", "local", "adapt", "scoring", "protocol"} - set(case)
        assert experiment.model_dump(include=same) == resolve(values).model_dump(include=same)
    assert set(bench.experiments()) == set(found["cases"])
    assert list(bench.seeds) == found["seeds"]


# ---------------------------------------------------------------- what came out


def test_results(done: tuple[Path, dict[str, Any]]) -> None:
    folder, result = done
    assert json.loads((folder / "results.json").read_text()) == result
    case = result["cases"]["fedper, iid"]
    records = [Record(folder / run) for run in case["runs"]]
    values = [record.summary.personal.weighted.personal_models for record in records]
    found = case["figures"]["personal.weighted.personal_models"]
    assert found["mean"] == pytest.approx(np.mean(values)) and found["std"] == pytest.approx(np.std(values, ddof=1))
    assert [len(curve) for curve in case["figures"]["curve.train_loss"]["per_seed"]] == [2, 2]
    assert case["figures"]["generic.accuracy"]["mean"] is None  # FedPer has no generic model
    assert [record.experiment.seed for record in records] == [0, 1]


def test_best_and_second_best_on_the_same_data(done: tuple[Path, dict[str, Any]]) -> None:
    _, result = done
    for partition in ("dirichlet:0.1", "iid"):
        pair = [
            result["cases"][f"{m}, {partition}"]["figures"]["personal.weighted.personal_models"]
            for m in ("fedavg", "fedper")
        ]
        assert [each["rank"] for each in sorted(pair, key=lambda each: -each["mean"])] == [1, 2]


def test_only_the_same_data_and_rounds_are_ranked(tmp_path: Path) -> None:
    """A case that trained longer, or on other data, is not better for that."""
    more = """
[cases]
short = { method = "fedavg" }
other = { method = "fedprox" }
long = { method = "fedavg", rounds = { count = 3 } }
fewer = { method = "fedavg", data = { subset = 0.2 } }
"""
    text = TEXT[: TEXT.index("[grid]")].replace("[0, 1]", "[0]") + more
    cases = compute(bench_of(text, tmp_path), tmp_path / "out")["cases"]
    ranks = {name: case["figures"]["generic.accuracy"].get("rank") for name, case in cases.items()}
    assert ranks["long"] is None and ranks["fewer"] is None
    assert {ranks["short"], ranks["other"]} <= {1, 2}
    assert cases["fewer"]["data"].endswith("subset 0.2, 2 rounds") and cases["long"]["data"].endswith("3 rounds")


def test_a_figure_that_is_not_there_is_named(done: tuple[Path, dict[str, Any]]) -> None:
    folder, result = done
    record = Record(folder / result["cases"]["fedavg, iid"]["runs"][0])
    assert value_of(record, "personal.weighted.accuracy.minimum") == record.summary.personal.minimum
    assert value_of(record, "last.generic").keys() >= {"generic.common.accuracy.pooled"}
    assert value_of(record, "last.generic.common.accuracy") == {
        "generic.common.accuracy.pooled": record.rounds[-1]["generic.common.accuracy.pooled"]
    }
    with pytest.raises(MotetError, match=r"no figure 'generic.nothing'; accepted: such as"):
        value_of(record, "generic.nothing")


def test_figures_that_no_run_has_are_said(tmp_path: Path) -> None:
    text = TEXT.replace("figures = [", 'figures = ["last.personal.split.line", "last.generic", ', 1)
    text = text.replace("[setting]", '[setting]\nscoring = { metrics = ["fisher"] }')
    result = compute(bench_of(text, tmp_path), tmp_path / "out")
    found = result["cases"]["fedavg, iid"]["figures"]["last.generic"]["per_seed"][0]
    assert any("fisher" in name for name in found)  # measured once, at the end
    assert [note for note in result["notes"] if note.startswith("No run has")] == [
        "No run has the figure last.personal.split.line."
    ]


def test_a_figure_that_one_case_lacks_is_null_there_and_ends_nothing(tmp_path: Path) -> None:
    text = (
        TEXT[: TEXT.index("[grid]")].replace("figures = [", 'figures = ["personal.split.ece.mean", ', 1)
        + """
[cases]
plain = { method = "fedavg" }
calibrated = { method = "fedavg", scoring = { metrics = ["ece"] } }
"""
    )
    result = compute(bench_of(text.replace("[0, 1]", "[0]"), tmp_path), tmp_path / "out")
    found = {name: case["figures"]["personal.split.ece.mean"] for name, case in result["cases"].items()}
    assert found["plain"]["per_seed"] == [None] and found["plain"]["mean"] is None
    assert found["calibrated"]["mean"] > 0
    assert not [note for note in result["notes"] if note.startswith("No run has")]


# ---------------------------------------------------------------- tables


def as_results(values: dict[str, Any]) -> BenchResults:
    return BenchResults.from_json(json.dumps(values).encode(), "results.json")


def made(*means: float, name: str = "a") -> BenchResults:
    """A result with these means of one figure, the first the best."""
    cases = {
        f"{name}{i}": {
            "method": "fedavg",
            "data": "digits",
            "figures": {"f_x": {"mean": mean, "std": 0.01, "per_seed": [mean], "rank": i + 1 if i < 2 else None}},
            "paper": {"f_x": 0.912} if i == 1 else {},
            "runs": [],
            "failures": {},
            "seconds": [1.0],
        }
        for i, mean in enumerate(means)
    }
    paper = [{"table": "Table 9", "figures": ["f_x"], "values": {}}]
    known = {
        "bench": "b",
        "quick": False,
        "claim": "c",
        "seeds": [0],
        "notes": ["n_1"],
        "figures": ["f_x"],
        "paper": paper,
        "format": 1,
        "commit": "",
        "machine": {},
        "setting": {},
    }
    return as_results({**known, "cases": cases})


def test_markdown() -> None:
    lines = to_markdown(made(0.9, 0.8, 0.7)).splitlines()
    assert lines[2:7] == [
        r"| case | f\_x | f\_x, paper |",
        "|---|---|---|",
        "| a0 | **90.0 ± 1.0** | – |",
        "| a1 | _80.0 ± 1.0_ | 91.2 |",
        "| a2 | 70.0 ± 1.0 | – |",
    ]
    assert "- Claim: c." in lines and "- Table 9: f\\_x beside ours." in lines and r"- n\_1" in lines


def test_latex() -> None:
    text = to_latex(made(0.9, 0.8, 0.7))
    assert r"a0 & \textbf{90.0 $\pm$ 1.0} & – \\" in text
    assert r"a1 & \underline{80.0 $\pm$ 1.0} & 91.2 \\" in text
    assert r"case & f\_x & f\_x, paper \\" in text


def test_csv() -> None:
    rows = list(csv.DictReader(StringIO(to_csv(made(0.9, 0.8)))))
    assert [(row["case"], float(row["mean"]), row["rank"], row["paper"]) for row in rows] == [
        ("a0", 0.9, "1", ""),
        ("a1", 0.8, "2", "0.912"),
    ]


def test_names_cannot_do_harm() -> None:
    evil = made(0.9, name="=1+1|<b>&_{}\x1b[31m")
    assert "\\|\\<b\\>" in to_markdown(evil) and "\x1b" not in to_markdown(evil)
    assert r"\&\_\{\}" in to_latex(evil)
    assert next(csv.DictReader(StringIO(to_csv(evil))))["case"].startswith("'=")


def test_every_choice_is_below_the_table(done: tuple[Path, dict[str, Any]]) -> None:
    folder, result = done
    console = Console(width=200, record=True, file=StringIO())
    console.print(bench_table(as_results(result)))
    for text in (console.export_text(), (folder / "table.md").read_text().replace("\\", "")):
        words = " ".join(text.split())
        for choice in (
            "epochs = 1",
            "lr = 0.05",
            "momentum = 0.9",
            "cohort = 1.0",
            "test_share = 0.2",
            "report = last",
        ):
            assert choice in words
        assert "Cases differ in data.partition." in words and "partition_seed = the run's seed" in words


# ---------------------------------------------------------------- kills, and the command


def test_killed_twice_and_begun_again_the_table_is_the_same(done: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    folder, result = done
    bench = bench_of(TEXT, tmp_path)
    for rounds in (3, 5):
        with pytest.raises(Killed):
            compute(bench, tmp_path / "killed", KilledAfter(rounds))
    assert timeless(compute(bench, tmp_path / "killed")) == timeless(result)
    for name in ("table.md", "table.tex", "table.csv"):
        assert (tmp_path / "killed" / name).read_bytes() == (folder / name).read_bytes()


def test_what_ended_is_in_the_table_before_the_end(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        compute(bench_of(TEXT, tmp_path), tmp_path / "it", KilledAfter(5))  # a run has two rounds
    result = json.loads((tmp_path / "it" / "results.json").read_text())
    assert sum(len(case["runs"]) for case in result["cases"].values()) == 2
    assert "So far: 2 of 8 runs ended." in (tmp_path / "it" / "table.md").read_text()


def test_cases_may_come_and_go_but_not_change(tmp_path: Path) -> None:
    def of(methods: str, lr: str = "0.05") -> BenchFile:
        text = TEXT.replace('["fedavg", "fedper"]', methods).replace('["dirichlet:0.1", "iid"]', '["iid"]')
        return bench_of(text.replace("0.05", lr).split("[[paper]]")[0], tmp_path)

    folder = tmp_path / "it"
    compute(of('["fedavg", "fedper"]'), folder)
    before = {path: path.stat().st_mtime_ns for path in folder.glob("runs/*/summary.json")}
    result = compute(of('["fedper", "local"]'), folder)
    assert list(result["cases"]) == ["fedper", "local"] and all(len(c["runs"]) == 2 for c in result["cases"].values())
    assert before == {path: path.stat().st_mtime_ns for path in before}
    with pytest.raises(MotetError, match=r"another experiment \(local.lr: 0.05 there, 0.5 here\); remove it"):
        compute(of('["fedper", "local"]', "0.5"), folder)


def test_a_case_that_fails_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    text = TEXT.replace('["fedavg", "fedper"]', '["fedavg", "fedbn"]').replace('["dirichlet:0.1", "iid"]', '["iid"]')
    text = text.replace('"fedavg, iid" = 91.0', "fedavg = 91.0")
    result = compute(bench_of(text, tmp_path), tmp_path / "it", quick=True)
    assert result["cases"]["fedavg"]["runs"] and not result["cases"]["fedbn"]["runs"]
    assert any("fedbn, seed 0 failed: " in note for note in result["notes"])


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bench.toml").write_text(TEXT)
    words = ["bench", str(tmp_path / "bench.toml"), "--quick", "--jobs", "1", "--out", str(tmp_path / "it")]
    assert main([*words, "--record", str(tmp_path / "kept.json"), "--json"]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result["quick"] and result["seeds"] == [0]
    assert json.loads((tmp_path / "kept.json").read_text())["cases"] == result["cases"]
    assert main(words) == 0
    assert "a quick look" in capsys.readouterr().out
    assert main(["bench", str(tmp_path / "nothing.toml")]) == 2
    assert "bench file" in capsys.readouterr().err


# ---------------------------------------------------------------- a record made in parts


class Counting(Nobody):
    """Counts the runs that are computed."""

    def __init__(self) -> None:
        self.labels: list[str] = []

    def began(self, job: Any) -> None:
        self.labels.append(job.label)


def test_a_bench_goes_on_from_its_record_without_the_folder_of_its_runs(
    done: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    """What one session recorded, another on a new machine does not compute again; the tables are the same."""
    result, part = deepcopy(done[1]), deepcopy(done[1])
    for name in ("fedavg, iid", "fedper, iid"):  # as a session writes it that ended early
        part["cases"][name] |= {"runs": [], "ended": [], "seconds": []}
        part["cases"][name]["figures"] = {k: {"per_seed": []} for k in part["cases"][name]["figures"]}
    before = BenchResults.from_json(json.dumps(part).encode(), "record")
    progress = Counting()
    bench = bench_of(TEXT, tmp_path)
    found = run_bench(bench, tmp_path / "it", 1, lambda total: nullcontext(progress), before=before)
    assert progress.labels == [f"{m}, iid, seed {s}" for m in ("fedavg", "fedper") for s in (0, 1)]
    again = json.loads(found.to_json())
    for case in (*again["cases"].values(), *result["cases"].values()):
        case.pop("seconds")
    assert again["cases"] == result["cases"] and again["notes"] == result["notes"]
    assert before.is_part_of(found) and not found.is_part_of(before)


def test_other_settings_and_own_code_are_computed_again(done: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    _, result = done
    before = BenchResults.from_json(json.dumps(result).encode(), "record")
    other = bench_of(TEXT.replace("lr = 0.05", "lr = 0.06").replace("seeds = [0, 1]", "seeds = [0]"), tmp_path)
    progress = Counting()
    found = run_bench(other, tmp_path / "it", 1, lambda total: nullcontext(progress), before=before)
    assert len(progress.labels) == 4 and not before.is_part_of(found)
    shutil.copy(BENCHMARKS.parent / "examples" / "own_method.py", tmp_path / "own_method.py")
    own = TEXT.replace('"fedavg", "fedper"', f'"{tmp_path}/own_method.py:ServerMomentum"').replace(', "iid"', "")
    own = re.sub(r"(?s)\[\[paper\]\].*", "", own)
    bench, before = bench_of(own, tmp_path), None
    for part in ("one", "two"):
        progress = Counting()
        before = run_bench(bench, tmp_path / part, 1, lambda total: nullcontext(progress), before=before)  # noqa: B023
        assert len(progress.labels) == 2


def test_the_record_is_written_after_every_run_and_read_by_the_next_call(tmp_path: Path) -> None:
    file, record = tmp_path / "grid.toml", tmp_path / "record.json"
    file.write_text(re.sub(r"(?s)\[\[paper\]\].*", "", TEXT).replace("seeds = [0, 1]", "seeds = [0]"))
    motet.bench(file, jobs=1, out=tmp_path / "one", record=record)
    first = record.read_bytes()
    motet.bench(file, jobs=1, out=tmp_path / "two", record=record)
    assert record.read_bytes() == first and not list((tmp_path / "two").glob("runs/*"))
    record.write_text("{}")
    with pytest.raises(MotetError, match=r"record\.json"):
        motet.bench(file, jobs=1, out=tmp_path / "three", record=record)
    assert record.read_text() == "{}"
